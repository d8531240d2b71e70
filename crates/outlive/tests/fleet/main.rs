//! Many servers behind one address.

mod calls;
mod rig;
