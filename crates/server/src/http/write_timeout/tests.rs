use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

#[tokio::test(start_paused = true)]
async fn write_to_blocked_reader_times_out() {
    let (near, far) = tokio::io::duplex(4);
    let mut near = WriteTimeoutStream::new(near, Duration::from_secs(30));
    let started = Instant::now();
    let error = near.write_all(b"more than fits").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert_eq!(started.elapsed().as_secs(), 30);
    drop(far);
}

#[tokio::test(start_paused = true)]
async fn slow_reader_receives_everything() {
    let (near, mut far) = tokio::io::duplex(4);
    let mut near = WriteTimeoutStream::new(near, Duration::from_secs(30));
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        let mut byte = [0];
        while far.read(&mut byte).await.unwrap() > 0 {
            all.extend(byte);
            tokio::time::sleep(Duration::from_secs(20)).await;
        }
        all
    });
    near.write_all(b"more than fits").await.unwrap();
    drop(near);
    assert_eq!(reader.await.unwrap(), b"more than fits");
}
