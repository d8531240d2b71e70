//! Scopes and claims, and what they let somebody see.

use serde_json::json;

use crate::client::{gate, hello, send, session, tools};
use crate::issuer::{Issuer, Key};
use crate::place::Place;

const VIEWS: &str = "oauth-view = ['mcp:all=*', 'claim groups=devs=work', 'claim realm.roles=aide=play']\n\
     oauth-operator = ['claim groups=ops']\n\n\
     [views.work]\nservers = ['one']\n[views.play]\nservers = ['two']\n";

#[test]
fn scopes_and_claims_decide_what_somebody_sees() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let config = place.write("outlive.toml", VIEWS);
    let fleet = gate(&place, &issuer, &["--config", &config]);
    for (claims, one, two) in [
        (json!({ "sub": "a", "scope": "x mcp:all" }), true, true),
        (json!({ "sub": "b", "groups": ["hr", "devs"] }), true, false),
        (
            json!({ "sub": "c", "realm": { "roles": ["aide"] } }),
            false,
            true,
        ),
        // The first rule that holds decides.
        (
            json!({ "sub": "d", "groups": "devs", "scp": ["mcp:all"] }),
            true,
            true,
        ),
    ] {
        let token = issuer.token(claims.clone());
        let id = session(&fleet, "/mcp", &token);
        let shown = tools(&fleet, "/mcp", &token, &id);
        let has = |server: &str| shown.iter().any(|it| it.starts_with(server));
        assert_eq!(
            (has("one__"), has("two__")),
            (one, two),
            "{claims}: {shown:?}"
        );
    }
    // Whoever fulfils none is told so, and what would help.
    let reply = hello(
        &fleet,
        &issuer.token(json!({ "sub": "e", "groups": ["hr"] })),
    );
    assert_eq!(reply.status, 403);
    let told = reply.header("www-authenticate").expect("a challenge");
    assert!(
        told.contains("insufficient_scope") && told.contains("mcp:all"),
        "{told}"
    );
    assert!(reply.text().contains("not sufficient"));
    // A view is not left by another path.
    let dev = issuer.token(json!({ "sub": "b", "groups": ["devs"] }));
    let body = http_peer::message::initialize().to_string();
    assert_eq!(
        send(&fleet, "POST", "/two/mcp", &dev, "", &body).status,
        404
    );
    // The page is for operators, also if somebody sees everything.
    let all = issuer.token(json!({ "sub": "a", "scope": "mcp:all" }));
    let ops = issuer.token(json!({ "sub": "o", "scope": "mcp:all", "groups": ["ops"] }));
    for path in ["/", "/metrics", "/status.json"] {
        assert_eq!(
            send(&fleet, "GET", path, &all, "", "").status,
            403,
            "{path}"
        );
        assert_eq!(
            send(&fleet, "GET", path, &ops, "", "").status,
            200,
            "{path}"
        );
        assert_eq!(fleet.get(path).status, 401, "{path}");
    }
    let restart = send(&fleet, "POST", "/servers/one/restart", &all, "", "");
    assert_eq!(restart.status, 403);
}

#[test]
fn a_rule_for_a_view_that_there_is_not_is_refused_at_the_start() {
    let (place, issuer) = (Place::new(), Issuer::start(Key::p256("k1")));
    let flags = place.flags(&json!({ "one": place.fake("one", &[]) }));
    let name = issuer.name();
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.extend([
        "--oauth-issuer",
        &name,
        "--audience",
        crate::issuer::AUDIENCE,
    ]);
    flags.extend(["--oauth-view", "mcp=wrok"]);
    let told = crate::fleet::refused(&crate::rig::Setup::new(), &flags);
    assert!(told.contains("\"wrok\", which there is not"), "{told}");
}
