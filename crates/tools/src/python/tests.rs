use std::os::unix::process::ExitStatusExt as _;

use noetl_types::Json;

use super::interpreter::{Interpreter, InterpreterKey};
use crate::program::create_private_dir;
use crate::settings::Settings;

/// When the worker ends, the channel closes. Only the kernel can then stop code that is running.
#[tokio::test]
async fn code_ends_with_its_worker() {
    let settings = Settings::default().with_environment(std::env::vars(), &[]);
    let key = InterpreterKey {
        program: "python3".into(),
        environment: std::collections::BTreeMap::new(),
    };
    let folder = create_private_dir(&settings).unwrap();
    let marker = folder.path().join("running");
    let mut interpreter =
        Interpreter::start(&key, &settings, create_private_dir(&settings).unwrap()).await.unwrap();
    let code = format!("open('{}', 'w').close()\nwhile True: pass", marker.display());
    let request = Json::object([
        ("code", Json::from(code)),
        ("file", Json::from("<x>")),
        ("input", Json::empty_map()),
        ("execution_id", Json::from("1")),
        ("step", Json::from("x")),
    ]);
    interpreter.send_request(&request).await.unwrap();
    while !marker.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let status = interpreter.orphan().await.unwrap();
    assert_eq!(status.signal(), Some(9));

    // An idle interpreter sees the end of its channel and exits.
    let idle =
        Interpreter::start(&key, &settings, create_private_dir(&settings).unwrap()).await.unwrap();
    assert_eq!(idle.orphan().await.unwrap().code(), Some(0));
}
