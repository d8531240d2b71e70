//! The token endpoint: what is sent there, and what its answers mean.

use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use super::client::Client;
use super::fetch::Fetcher;
use super::store::KeptGrant;
use super::{random_number, wall};

/// What an authorization server gave.
pub(super) struct Tokens {
    access: String,
    refresh: Option<String>,
    lifetime: Option<Duration>,
}

/// Why it gave nothing.
#[derive(Debug)]
pub(super) enum NoTokens {
    /// It refuses, and would again.
    Refused { error: String, why: String },
    /// It has certainly not read what was sent.
    Unsent(String),
    /// Nobody knows.
    Unknown(String),
}

impl NoTokens {
    pub(super) fn words(self) -> String {
        match self {
            NoTokens::Refused { error, why } if why.is_empty() => error,
            NoTokens::Refused { error, why } => format!("{error}: {why}"),
            NoTokens::Unsent(why) | NoTokens::Unknown(why) => why,
        }
    }
}

/// Errors that say nothing about what was sent.
const PASSING: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// Sends a form to the token endpoint.
pub(super) async fn ask(
    fetcher: &Fetcher,
    endpoint: Url,
    client: &Client,
    key: Option<&str>,
    mut form: Vec<(&'static str, String)>,
) -> Result<Tokens, NoTokens> {
    let headers = client
        .sign(key, wall(), &mut form)
        .map_err(NoTokens::Unsent)?;
    let form: Vec<(&str, &str)> = form
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let (status, answer) = fetcher
        .form(endpoint, headers, &form)
        .await
        .map_err(|failure| match failure.unsent {
            true => NoTokens::Unsent(failure.why),
            false => NoTokens::Unknown(failure.why),
        })?;
    read(status, &answer)
}

fn read(status: u16, answer: &Value) -> Result<Tokens, NoTokens> {
    let text = |name: &str| answer[name].as_str().map(str::to_owned);
    // Some answer 200 to everything.
    if let Some(error) = text("error").filter(|_| status != 429 && status < 500) {
        let why = text("error_description").unwrap_or_default();
        return Err(match PASSING.contains(&error.as_str()) {
            true => NoTokens::Unknown(error),
            false => NoTokens::Refused { error, why },
        });
    }
    let kind = text("token_type").unwrap_or_else(|| "bearer".into());
    let Some(access) = text("access_token").filter(|_| status == 200) else {
        return Err(NoTokens::Unknown(format!(
            "the token endpoint answered with status {status}"
        )));
    };
    // It is going to be a header.
    if !kind.eq_ignore_ascii_case("bearer") || !access.bytes().all(|b| b.is_ascii_graphic()) {
        let error = "unusable_token".to_owned();
        let why = "the token endpoint gave a token that is no bearer token".to_owned();
        return Err(NoTokens::Refused { error, why });
    }
    let seconds = answer["expires_in"]
        .as_u64()
        .or_else(|| answer["expires_in"].as_str()?.parse().ok())
        // Some write 3600.0; what is negative becomes 0.
        .or_else(|| answer["expires_in"].as_f64().map(|it| it as u64));
    Ok(Tokens {
        access,
        refresh: text("refresh_token").filter(|it| !it.is_empty()),
        // One that has expired when it is issued would be exchanged for ever.
        lifetime: seconds.filter(|it| *it > 0).map(Duration::from_secs),
    })
}

impl Tokens {
    /// The grant, as it is kept. A server that does not rotate its refresh tokens sends none the second time.
    pub(super) fn kept(self, before: Option<&KeptGrant>, scopes: Vec<String>) -> KeptGrant {
        let issued = wall();
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let expires = self.lifetime.and_then(|life| issued.checked_add(life));
        KeptGrant {
            id: random_number(),
            access_token: self.access,
            refresh_token: self
                .refresh
                .or_else(|| before.and_then(|it| it.refresh_token.clone())),
            issued: milliseconds(issued),
            expires: expires.map(milliseconds),
            in_doubt: false,
            by_login: before.is_none(),
            scopes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_mean_what_they_say() {
        let kind = |status: u16, answer: Value| match read(status, &answer) {
            Ok(_) => "granted",
            Err(NoTokens::Refused { .. }) => "refused",
            Err(NoTokens::Unsent(_)) => "unsent",
            Err(NoTokens::Unknown(_)) => "unknown",
        };
        for (status, answer, meaning) in [
            (
                200,
                json!({"access_token": "a", "token_type": "Bearer"}),
                "granted",
            ),
            (200, json!({"access_token": "a"}), "granted"),
            (
                200,
                json!({"access_token": "a", "token_type": "DPoP"}),
                "refused",
            ),
            (200, json!({"access_token": "a\nb"}), "refused"),
            (200, json!({"error": "invalid_grant"}), "refused"),
            (400, json!({"error": "invalid_grant"}), "refused"),
            (401, json!({"error": "invalid_client"}), "refused"),
            (400, json!({"error": "temporarily_unavailable"}), "unknown"),
            (429, json!({"error": "invalid_grant"}), "unknown"),
            (500, json!({"error": "invalid_grant"}), "unknown"),
            (503, Value::Null, "unknown"),
            (404, Value::Null, "unknown"),
            (200, Value::Null, "unknown"),
            (302, json!({"access_token": "a"}), "unknown"),
        ] {
            assert_eq!(kind(status, answer.clone()), meaning, "{status} {answer}");
        }
        let life = |answer| {
            read(200, &answer)
                .ok()
                .unwrap()
                .lifetime
                .map(|it| it.as_secs())
        };
        assert_eq!(life(json!({"access_token": "a", "expires_in": 5})), Some(5));
        assert_eq!(
            life(json!({"access_token": "a", "expires_in": "5"})),
            Some(5)
        );
        for odd in [
            json!(0),
            json!(-5),
            json!(-5.5),
            json!("soon"),
            json!([]),
            json!(null),
        ] {
            let answer = json!({"access_token": "a", "expires_in": odd});
            assert_eq!(life(answer), None, "{odd}");
        }
        let life_of = |odd: Value| {
            let answer = read(200, &json!({"access_token": "a", "expires_in": odd}));
            answer.ok().unwrap().kept(None, Vec::new()).grant()
        };
        assert_eq!(
            life(json!({"access_token": "a", "expires_in": 60.0})),
            Some(60)
        );
        // What lasts longer than time can be told is not refreshed at once, and breaks nothing.
        for odd in [json!(u64::MAX), json!(u64::MAX / 1000), json!(1e300)] {
            let grant = life_of(odd.clone());
            assert!(!grant.is_expired(wall()), "{odd}");
            assert!(grant.renew_at().is_none_or(|at| at > wall()), "{odd}");
        }
    }
}
