//! Names and faces of programs.

use serde::{Deserialize, Serialize};

use super::{Object, lenient};

/// A client or a server: what it is called and which version it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Implementation {
    /// The name for programs.
    pub name: String,
    /// The version, in whatever form.
    #[serde(default, deserialize_with = "lenient::null_as_default")]
    pub version: String,
    /// The name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Pictures to show for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icons: Option<Vec<Icon>>,
    /// Where to read about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Implementation {
    /// A program of this name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Implementation {
        Implementation {
            name: name.into(),
            version: version.into(),
            ..Implementation::default()
        }
    }
}

/// A picture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Icon {
    /// Where it is: a URL, or the picture itself as a `data:` URI.
    pub src: String,
    /// Its type, if the URL does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its sizes, such as `48x48` or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Vec<String>>,
    /// The background it was made for: `light` or `dark`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theme: Option<String>,
    /// Fields we do not know.
    #[serde(flatten)]
    pub extra: Object,
}

impl Icon {
    /// The picture at this URL.
    pub fn new(src: impl Into<String>) -> Icon {
        Icon {
            src: src.into(),
            ..Icon::default()
        }
    }
}
