//! Lists are merged, and calls reach the server they are for.

use crate::rig::{Fleet, named, said, tools};

#[tokio::test(flavor = "multi_thread")]
async fn all_servers_are_one_and_each_call_reaches_its_own() {
    let fleet = Fleet::of([("a", named("a")), ("b", named("b"))]).await;
    let client = fleet.client().await;
    assert_eq!(tools(&client).await, ["a__who", "a__a", "b__who", "b__b"]);
    for (tool, by) in [
        ("a__who", "a"),
        ("b__who", "b"),
        ("a__a", "a"),
        ("b__b", "b"),
    ] {
        assert_eq!(said(&client, tool).await, by);
    }
    let nobody = client.call("c__who", ()).await;
    assert!(nobody.is_err(), "{nobody:?}");
    drop(client);
    fleet.end().await;
}
