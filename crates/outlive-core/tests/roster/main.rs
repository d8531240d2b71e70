//! What many servers offer, as one: names, views, look-ups, pages, pins, and the bytes on disk.

mod encoding;
mod lists;
mod naming;
mod offer;
mod pages;
mod pin;
mod resources;
mod servers;
mod view;
mod words;
