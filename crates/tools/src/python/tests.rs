use std::os::unix::process::ExitStatusExt as _;
use std::sync::Arc;

use noetl_types::Json;

use super::Python;
use super::interpreter::Interpreter;
use super::pool::Key;
use crate::http::Web;
use crate::program::private_folder;
use crate::settings::Settings;
use crate::source::Sources;

/// The end of the worker closes the channel; code that is running then has nobody to end it but
/// the kernel.
#[tokio::test]
async fn code_does_not_outlive_its_worker() {
    let settings = Settings::default().with_environment(std::env::vars(), &[]);
    let shared = Arc::new(settings.clone());
    let web = Arc::new(Web::new(settings.egress.clone()));
    let sources = Arc::new(Sources::new(Arc::clone(&shared), web));
    let python = Python::new(shared, sources);
    let key = Key {
        program: "python3".into(),
        environment: std::collections::BTreeMap::new(),
    };
    let folder = private_folder(&settings).unwrap();
    let mark = folder.path().join("running");
    let mut interpreter =
        Interpreter::start(&key, &python.settings, private_folder(&settings).unwrap())
            .await
            .unwrap();
    let code = format!("open('{}', 'w').close()\nwhile True: pass", mark.display());
    let request = Json::object([
        ("code", Json::from(code)),
        ("file", Json::from("<x>")),
        ("input", Json::empty_map()),
        ("execution_id", Json::from("1")),
        ("step", Json::from("x")),
    ]);
    interpreter.begin(&request).await.unwrap();
    while !mark.exists() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    let status = interpreter.orphan().await.unwrap();
    assert_eq!(status.signal(), Some(9));

    // An idle one sees the end of its channel and leaves by itself.
    let idle = Interpreter::start(&key, &python.settings, private_folder(&settings).unwrap())
        .await
        .unwrap();
    assert_eq!(idle.orphan().await.unwrap().code(), Some(0));
}
