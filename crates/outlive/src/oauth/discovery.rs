//! From a server to its authorization server (RFC 9728), and what that says of itself (RFC 8414, OpenID Connect).

use reqwest::Url;
use serde_json::{Value, json};

use super::fetch::Fetcher;

/// What a server says of itself.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// What tokens are asked for.
    pub(super) name: String,
    /// The authorization server it names; none before 2025-06-18.
    pub(super) issuer: Option<String>,
    pub(super) scopes: Vec<String>,
}

/// An authorization server.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    /// Its identifier, as it was named and as it names itself.
    pub(super) name: String,
    /// It says something of itself, or somebody else says that it is there.
    pub(super) documented: bool,
    metadata: Value,
}

impl Resource {
    /// Reads what the server says of itself, where the challenge says, or where it is by convention.
    pub(super) async fn find(
        fetcher: &Fetcher,
        server: &Url,
        named: Option<&str>,
    ) -> Result<Resource, String> {
        const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
        let path = server.path().trim_end_matches('/');
        let places = match named {
            Some(place) => vec![place.to_owned()],
            None if path.is_empty() => vec![WELL_KNOWN.to_owned()],
            None => vec![format!("{WELL_KNOWN}{path}"), WELL_KNOWN.to_owned()],
        };
        for place in places {
            let place = server.join(&place).map_err(|error| error.to_string())?;
            if let Some(document) = fetcher.document(place).await? {
                return Resource::read(&document, server);
            }
        }
        Ok(Resource {
            name: canonical(server),
            issuer: None,
            scopes: Vec::new(),
        })
    }

    fn read(document: &Value, server: &Url) -> Result<Resource, String> {
        let name = document["resource"].as_str().unwrap_or_default();
        let url =
            Url::parse(name).map_err(|_| "the server's metadata names no resource".to_string())?;
        let path = url.path().trim_end_matches('/');
        let rest = server.path().strip_prefix(path);
        let within = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // Else a token of ours could be had for a server that we do not talk to.
        if url.origin() != server.origin() || !within {
            return Err(format!(
                "the server's metadata is about another one: {name}"
            ));
        }
        let issuer = document["authorization_servers"][0].as_str();
        Ok(Resource {
            name: name.to_owned(),
            issuer: Some(
                issuer
                    .ok_or("the server names no authorization server")?
                    .to_owned(),
            ),
            scopes: texts(&document["scopes_supported"]),
        })
    }
}

impl Issuer {
    /// Reads what the authorization server of this resource says of itself.
    pub(super) async fn find(
        fetcher: &Fetcher,
        server: &Url,
        resource: &Resource,
    ) -> Result<Issuer, String> {
        let origin = server.origin().ascii_serialization();
        let name = resource.issuer.as_deref().unwrap_or(&origin);
        let at = Url::parse(name)
            .map_err(|error| format!("{name} is no authorization server: {error}"))?;
        let path = at.path().trim_end_matches('/');
        let mut places = vec![
            format!("/.well-known/oauth-authorization-server{path}"),
            format!("/.well-known/openid-configuration{path}"),
        ];
        if !path.is_empty() {
            places.push(format!("{path}/.well-known/openid-configuration"));
        }
        for place in places {
            let place = at.join(&place).map_err(|error| error.to_string())?;
            let Some(metadata) = fetcher.document(place).await? else {
                continue;
            };
            let says = metadata["issuer"].as_str();
            // RFC 8414, 3.3: letter by letter. Before 2025-06-18 nobody had named it.
            if says != Some(name)
                && (resource.issuer.is_some()
                    || says.is_some_and(|it| it.trim_end_matches('/') != name))
            {
                return Err(format!(
                    "the authorization server at {name} says that it is {}",
                    says.unwrap_or("nobody")
                ));
            }
            let name = says.unwrap_or(name).to_owned();
            let documented = true;
            return Ok(Issuer {
                name,
                documented,
                metadata,
            });
        }
        if resource.issuer.is_some() {
            return Err(format!(
                "the authorization server {name} says nothing of itself"
            ));
        }
        // Before 2025-06-18 the places were fixed.
        let metadata = json!({
            "authorization_endpoint": format!("{origin}/authorize"),
            "token_endpoint": format!("{origin}/token"),
            "registration_endpoint": format!("{origin}/register"),
            "code_challenge_methods_supported": ["S256"],
        });
        Ok(Issuer {
            name: origin,
            documented: false,
            metadata,
        })
    }

    /// One of its endpoints, if it has it.
    pub(super) fn endpoint(&self, name: &str) -> Option<Url> {
        Url::parse(self.metadata[name].as_str()?).ok()
    }

    /// An endpoint that it must have.
    pub(super) fn needed(&self, name: &str) -> Result<Url, String> {
        let why = || format!("the authorization server {} has no {name}", self.name);
        self.endpoint(name).ok_or_else(why)
    }

    /// Whether it says yes to this.
    pub(super) fn says(&self, what: &str) -> bool {
        self.metadata[what] == true
    }

    /// What it lists; none if it says nothing of it.
    pub(super) fn list(&self, what: &str) -> Option<Vec<String>> {
        self.metadata[what]
            .is_array()
            .then(|| texts(&self.metadata[what]))
    }

    /// Whether it lists this.
    pub(super) fn lists(&self, what: &str, item: &str) -> bool {
        self.list(what)
            .is_some_and(|all| all.iter().any(|it| it == item))
    }
}

/// The address of a server as tokens name it: without a fragment, and without a slash that says nothing.
pub(super) fn canonical(server: &Url) -> String {
    let mut url = server.clone();
    url.set_fragment(None);
    url.set_query(None);
    // Neither can fail for an address with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    match url.path() {
        "/" => url.as_str().trim_end_matches('/').to_owned(),
        _ => url.into(),
    }
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(Value::as_str).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_about_another_server_is_not_believed() {
        let server: Url = "https://a.example/team/mcp".parse().unwrap();
        let read = |resource: &str| {
            let document =
                json!({"resource": resource, "authorization_servers": ["https://as.example"]});
            Resource::read(&document, &server).is_ok()
        };
        for good in [
            "https://a.example/team/mcp",
            "https://a.example",
            "https://a.example/",
            "https://A.example/team",
        ] {
            assert!(read(good), "{good}");
        }
        for bad in [
            "https://b.example/team/mcp",
            "https://a.example/team/m",
            "http://a.example/team/mcp",
            "",
            "x",
        ] {
            assert!(!read(bad), "{bad}");
        }
    }

    #[test]
    fn an_address_has_one_spelling() {
        for (server, name) in [
            ("https://A.example/", "https://a.example"),
            (
                "https://me:x@a.example:8443/mcp?key=1#f",
                "https://a.example:8443/mcp",
            ),
            ("http://a.example/mcp/", "http://a.example/mcp/"),
        ] {
            assert_eq!(canonical(&server.parse().unwrap()), name);
        }
    }
}
