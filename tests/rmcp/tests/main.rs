//! Real rmcp on one side or both, real processes, real signals.

mod client;
mod rig;
mod scripted;
mod server;
