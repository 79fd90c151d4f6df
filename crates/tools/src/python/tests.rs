use std::collections::BTreeMap;
use std::sync::Arc;

use noetl_types::Json;
use noetl_types::json::parse;

use super::find_modules;
use super::zygote::{ZygoteKey, ZygotePool};
use crate::settings::Settings;
use crate::tool::CallContext;

/// When the worker ends, the kernel closes its sockets. The zygote then kills code that is running.
#[tokio::test]
async fn code_ends_with_its_worker() {
    let settings = Arc::new(Settings::default().with_environment(std::env::vars(), &[]));
    let key = ZygoteKey { program: "python3".into(), environment: BTreeMap::new() };
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("pid");
    let code = format!(
        "import os\nopen('{0}.new', 'w').write(str(os.getpid()))\n\
         os.rename('{0}.new', '{0}')\nwhile True: pass",
        marker.display()
    );
    let request = Json::object([
        ("code", Json::from(code)),
        ("file", Json::from("<x>")),
        ("input", Json::empty_map()),
        ("execution_id", Json::from("1")),
        ("step", Json::from("x")),
    ]);
    let pool = ZygotePool::new(settings);
    let context = CallContext::default();
    let pid = tokio::select! {
        result = pool.run(&key, &request, &[], &context) => panic!("it ended: {result:?}"),
        pid = async {
            loop {
                if let Ok(pid) = std::fs::read_to_string(&marker) {
                    return pid;
                }
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
        } => pid,
    };
    pool.close();
    let process = std::path::PathBuf::from(format!("/proc/{pid}/exe"));
    while process.read_link().is_ok() {
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

#[test]
fn finds_imported_modules() {
    let libs = parse(br#"{"m": "math", "d": {"from": "json.decoder", "import": "X"}, "n": 5}"#);
    let code = "import os, sys\n  from a.b import c\nimport x;y\nfrom . import z\nimport e-vil\n\
                async def main(): pass";
    let modules = find_modules(code, Some(&libs.unwrap()));
    assert_eq!(modules, ["json.decoder", "math", "os", "a.b", "x", "asyncio"]);
    assert_eq!(find_modules(&"import os\n".repeat(100), None).len(), 32);
}
