//! Many servers behind one address.

mod calls;
mod crowds;
mod lives;
mod pins;
mod rig;
mod stdio;
