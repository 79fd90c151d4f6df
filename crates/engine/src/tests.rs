use super::*;

/// The server moves plans and states between threads.
#[test]
fn shared_types_are_send_and_sync() {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<Plan>();
    assert_send_sync::<ExecutionState>();
    assert_send_sync::<Decision>();
    assert_send_sync::<EngineInput>();
}
