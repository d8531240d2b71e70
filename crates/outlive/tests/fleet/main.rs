//! Many servers behind one address.

mod calls;
mod crowds;
mod lives;
mod rig;
mod stdio;
