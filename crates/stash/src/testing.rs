//! For tests: a server whose cluster is the API server in memory, and whose tenants' storage is in memory.
