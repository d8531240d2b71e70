//! Over HTTP: `outlive serve` beside other bridges from standard input and output to Streamable HTTP, and our server
//! beside those of other SDKs.
//!
//! The mark is a [bare relay](../../src/bin/http_relay.rs), beside which a bridge can be nothing but slower.
//!
//! Everybody has the same client, the same calls, the same number of connections. Bridges have the same server behind
//! them, the echo server of every other comparison here.
//!
//! | file | what happens there |
//! |---|---|
//! | `wire` | requests are laid out, replies are read |
//! | `fleet` | one thread keeps any number of connections busy |
//! | `contender` | who takes part, and how it is started |
//! | `matrix` | turns are taken |
//! | `page` | what was found is written down |

mod contender;
mod fleet;
mod matrix;
mod page;
mod wire;

pub use contender::{Contender, Kind, Running, Side, all, outlive, own, servers, shake_hands};
pub use fleet::{Fleet, Outcome};
pub use matrix::{Matrix, all_cells, turn, turn_at};
pub use page::{against, against_earlier, against_mark, markdown, panels};
pub use wire::{Address, Era};
