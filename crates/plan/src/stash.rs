//! Decisions about Stash's kinds: which pods and volumes a target has and which hosts they make ([`targets`], [`hosts`]),
//! which snapshots a restore takes ([`rules`]), whether an invoker may run ([`invoker`], [`reservation`]) and its author was checked ([`policies`]), and what a
//! session does next ([`state`], [`session`]). Crate `stash` carries them out.

pub mod hosts;
pub mod policies;
pub mod state;
