//! What a server is called in sentences.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The command or address of a server, secrets masked, and its name where it is one of several. It is read as the
/// command or address.
#[derive(Clone, PartialEq, Eq)]
pub struct Label(Arc<Words>);

// Behind one pointer: a label is part of every cause, and a cause of every error.
#[derive(PartialEq, Eq)]
struct Words {
    text: Arc<str>,
    name: Option<Arc<str>>,
}

impl Label {
    /// A command or address, and the name of the server, if it has one.
    pub fn new(text: impl Into<Arc<str>>, name: Option<Arc<str>>) -> Label {
        let text = text.into();
        Label(Arc::new(Words { text, name }))
    }

    /// The name of the server, where it is one of several.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }
}

impl Deref for Label {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl<T: Into<Arc<str>>> From<T> for Label {
    fn from(text: T) -> Label {
        Label::new(text, None)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{:?} ({name})", &**self),
            None => write!(f, "{:?}", &**self),
        }
    }
}
