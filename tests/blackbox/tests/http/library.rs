//! The same for those who use the crate: `Client::builder().url(…)`.

use outlive::{Client, Error, Remote};
use serde_json::json;

use crate::web::{Act, Web, response};

/// The client finds out the era, calls, survives a death, and ends its session.
#[tokio::test]
async fn a_client_over_http() {
    let script =
        |request: &crate::web::Request| (request.tool() == "hang").then(|| vec![Act::Hang]);
    let web = Web::start(script);
    let client = Client::builder().url(web.url()).connect().await.unwrap();
    assert_eq!(client.tools().await.unwrap().len(), 2);
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call("hang", json!({})).await }
    });
    let (web, address) = tokio::task::spawn_blocking(move || {
        web.wait_for(1, "the call", |request| request.tool() == "hang");
        let address = web.kill();
        (Web::start_at(address, script), address)
    })
    .await
    .unwrap();
    assert_eq!(web.address(), address);
    match call.await.unwrap() {
        Err(Error::ConnectionLost { .. }) => {}
        other => panic!("{other:?}"),
    }
    let result = client.call("echo", json!({})).await.unwrap();
    assert!(result.text().starts_with("echo by session-"));
    assert_eq!(web.open_sessions(), 1);
    client.close().await;
    assert_eq!(web.open_sessions(), 0);
}

/// What cannot be reached as it is described is said by `connect`.
#[tokio::test]
async fn what_is_wrong_with_an_address_is_said() {
    let refused = |error: Error| {
        assert_eq!(error.kind(), "unavailable");
        error.to_string()
    };
    let error = Client::builder().url("example.com").connect().await;
    assert!(refused(error.unwrap_err()).contains("no address"));
    let remote = Remote::new("http://127.0.0.1:1/").header("X: ${NO_SUCH_VARIABLE}");
    let error = Client::builder().url(remote).connect().await;
    assert!(refused(error.unwrap_err()).contains("NO_SUCH_VARIABLE"));
    let web = Web::start(|_| Some(response(401, &[], "")));
    let error = Client::builder().url(web.url()).connect().await;
    assert!(refused(error.unwrap_err()).contains("credentials"));
}
