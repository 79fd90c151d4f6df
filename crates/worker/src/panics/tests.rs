use super::*;

#[tokio::test]
async fn panic_becomes_error() {
    let completed = catch_panic(async { 7 }).await;
    assert_eq!(completed.unwrap(), 7);
    let panicked = catch_panic(async { panic!("no {}", "luck") }).await;
    assert_eq!(panicked.unwrap_err(), "no luck");
}
