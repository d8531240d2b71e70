//! What many servers offer, as one: names, views, look-ups, pages, pins, and the bytes on disk.

mod lists;
mod servers;
