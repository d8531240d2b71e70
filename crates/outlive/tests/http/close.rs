//! The end of a server.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::offer::Offer;
use crate::rig::*;

#[test]
fn fm_54_what_is_in_flight_is_finished_and_then_the_server_ends() {
    let offer = Offer::with(|builder| builder.grace(HANG));
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let mut news = client.listen(None);
    let mut calls = vec![
        rig.modern(&modern_call(1, "gate", json!({}))),
        rig.modern(&modern_call(1, "gate", json!({}))),
        client.call(1, "gate", json!({})),
    ];
    for call in &mut calls {
        assert_eq!(call.message()["params"]["progress"], 1);
    }
    rig.handle.shutdown();
    // They are told, and answer all the same.
    assert_eq!(offer.told(3), ["shutdown"; 3]);
    for call in &mut calls {
        assert_eq!(text_of(&call.message()), "given up");
        assert_eq!(call.event(), None);
    }
    while news.event().is_some() {}
    assert!(rig.has_ended());
    assert!(TcpStream::connect(rig.address).is_err());
}

#[test]
fn handlers_that_do_not_listen_do_not_keep_the_server() {
    let grace = Duration::from_millis(100);
    let offer = Offer::with(|builder| {
        builder
            .grace(grace)
            .tool("deaf", "Hears nothing.", |ctx, (): ()| async move {
                ctx.progress(1.0, None);
                std::future::pending::<()>().await;
            })
    });
    let rig = Rig::new(&offer.server);
    let client = rig.client();
    let mut legacy = client.call(1, "deaf", json!({}));
    let mut modern = rig.modern(&modern_call(1, "deaf", json!({})));
    for call in [&mut legacy, &mut modern] {
        assert_eq!(call.message()["params"]["progress"], 1);
    }
    rig.handle.shutdown();
    for call in [&mut legacy, &mut modern] {
        assert_eq!(call.message()["error"]["code"], -31005);
        assert_eq!(call.event(), None);
    }
    assert!(rig.has_ended());
}

#[test]
fn dropping_the_future_shuts_the_server_down() {
    let offer = Offer::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let listening = offer
            .server
            .http()
            .bind("127.0.0.1:0")
            .await
            .expect("a port");
        let address = listening.local_addr();
        let serving = tokio::time::timeout(Duration::from_millis(100), listening.serve());
        assert!(serving.await.is_err(), "it goes on until it is dropped");
        // It ends on this runtime, so that has to go on.
        let begun = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            assert!(begun.elapsed() < HANG);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
