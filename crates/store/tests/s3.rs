// written by the store engineer
