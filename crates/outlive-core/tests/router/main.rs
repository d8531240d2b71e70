//! The router: one client before many servers. Random schedules of everything that can happen to it, and the rules one
//! by one.

mod found;
mod isolation;
#[path = "../support/known.rs"]
mod known;
mod lists;
mod modern;
mod modern_sim;
#[path = "../support/random.rs"]
mod random;
mod reload;
mod rig;
mod routes;
#[cfg(feature = "search")]
mod search;
#[path = "../support/seeds.rs"]
mod seeds;
mod sim;
mod uplift;
mod uplift_sim;
