//! Whether somebody has to log in, for whoever can tell them.

/// Whether somebody has to log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LoginStatus {
    /// Nobody has been asked.
    #[default]
    Quiet,
    /// Somebody has to open this link, and to enter this code there if there is one.
    Wanted {
        /// Names this login; every one has another.
        number: u64,
        /// The link.
        link: String,
        /// The code.
        code: Option<String>,
    },
    /// The login is done.
    Granted,
    /// It has ended without a token.
    Failed,
}
