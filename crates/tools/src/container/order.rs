//! What a config asks of an engine, as the words of its command line.

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

use super::volumes;
use crate::call::Call;
use crate::config::{Config, missing, printed, unreadable, wrong};
use crate::program::{is_variable, names_of_the_run, not_a_variable};
use crate::settings::Settings;
use crate::words::words;

/// Variables that the client of an engine reads itself, by how their names begin. The container
/// gets those by the command line, so that they do not bend the client.
const OF_THE_CLIENT: [&str; 14] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_",
    "DYLD_",
    "GO",
    "DOCKER_",
    "BUILDKIT_",
    "CONTAINER",
    "PODMAN_",
    "REGISTRY_",
    "STORAGE_",
    "XDG_",
    "SSL_",
];

/// What is asked of an engine.
#[derive(Debug)]
pub(super) struct Order {
    /// All that follows the name of the container.
    pub(super) words: Vec<String>,
    /// The environment of the client, which hands on the variables of the container: values on its
    /// command line would be seen by everybody on the machine.
    pub(super) environment: Vec<(String, String)>,
}

impl Order {
    /// Reads the config of a call.
    pub(super) fn read(call: &Call, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let image = image(config, settings)?;
        let mut line = labels(call)?;
        line.extend(limits(config, settings)?);
        line.extend(volumes::mounts(config, settings)?);
        let mut environment = settings.environment.clone();
        environment.extend(settings.container.environment.clone());
        for (name, value) in variables(call)? {
            if environment.contains_key(&name) || !can_be_handed_on(&name) {
                line.extend(["--env".to_owned(), format!("{name}={value}")]);
            } else {
                line.extend(["--env".to_owned(), name.clone()]);
                environment.insert(name, value);
            }
        }
        let mut command = words(config, "command")?.into_iter();
        if let Some(program) = command.next() {
            line.extend(["--entrypoint".to_owned(), program]);
        }
        line.push(image);
        line.extend(command);
        line.extend(words(config, "args")?);
        Ok(Self {
            words: line,
            environment: environment.into_iter().collect(),
        })
    }
}

/// Whether a variable of the container can go through the environment of the client: one that the
/// client does not read itself, and that the shell in front of it does not drop for its name.
fn can_be_handed_on(name: &str) -> bool {
    let is_clients = OF_THE_CLIENT.iter().any(|start| name.starts_with(start))
        || name.to_ascii_uppercase().ends_with("_PROXY");
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word && !is_clients && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn image(config: Config<'_>, settings: &Settings) -> Result<String, TaskError> {
    let image = config.text("image")?.ok_or_else(|| missing("'image'"))?;
    // What begins like an option would be one.
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(unreadable(
            "image",
            &format!("is '{image}', which is no image"),
        ));
    }
    let opens = |rule: &String| match rule.strip_suffix('*') {
        Some(start) => image.starts_with(start),
        None => image == rule,
    };
    match &settings.container.images {
        Some(rules) if !rules.iter().any(opens) => Err(TaskError::new(
            TaskErrorKind::Auth,
            format!(
                "the image '{image}' is not among those that the operator opened \
                 (NOETL_CONTAINER_IMAGES)"
            ),
        )),
        Some(_) | None => Ok(image.to_owned()),
    }
}

/// What tells people on the machine whose container this is.
fn labels(call: &Call) -> Result<Vec<String>, TaskError> {
    let mut labels = Config(&call.config).texts("labels")?;
    labels.extend([
        ("io.noetl.execution".to_owned(), call.execution_id.clone()),
        ("io.noetl.step".to_owned(), call.step.clone()),
    ]);
    let words = labels.into_iter();
    Ok(words
        .flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={value}")])
        .collect())
}

/// The walls of a container: those that the config asks for, else those of any process.
fn limits(config: Config<'_>, settings: &Settings) -> Result<Vec<String>, TaskError> {
    let resources = config.map("resources")?;
    // Requests are for those who choose a machine, and here there is but one.
    let asked = |name: &str| {
        let limits = resources?.get("limits").and_then(Json::as_map);
        Config(limits.or(resources)?).get(name)
    };
    let memory = match (asked("memory"), settings.walls.memory) {
        (Some(value), most) => Some(memory_within(most, memory(value)?)?),
        (None, most) => most,
    };
    let mut words = vec!["--security-opt".to_owned(), "no-new-privileges".to_owned()];
    if settings.sandbox.is_offline {
        words.extend(["--network".to_owned(), "none".to_owned()]);
    }
    if let Some(memory) = memory {
        let bytes = memory.as_bytes().to_string();
        // As much with swap as without: none.
        words.extend([
            "--memory".into(),
            bytes.clone(),
            "--memory-swap".into(),
            bytes,
        ]);
    }
    if let Some(value) = asked("cpu") {
        words.extend(["--cpus".to_owned(), cpus(value)?]);
    }
    if let Some(processes) = settings.walls.processes {
        words.extend(["--pids-limit".to_owned(), processes.to_string()]);
    }
    Ok(words)
}

/// The memory that a task asks for, where the operator lets it have so much.
fn memory_within(most: Option<ByteSize>, asked: ByteSize) -> Result<ByteSize, TaskError> {
    match most {
        Some(most) if asked > most => Err(TaskError::new(
            TaskErrorKind::Limit,
            format!(
                "'resources' asks for {asked} of memory, {most} are allowed (NOETL_TASK_MEMORY)"
            ),
        )),
        Some(_) | None => Ok(asked),
    }
}

/// A size as Kubernetes writes it: `512Mi`, `1G`, or a number of bytes.
fn memory(value: &Json) -> Result<ByteSize, TaskError> {
    const KEY: &str = "resources.memory";
    let text = printed(value).ok_or_else(|| wrong(KEY, "a size", value))?;
    let refused = || unreadable(KEY, &format!("is '{text}', not a size such as 512Mi"));
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        _ => return Err(refused()),
    };
    let number: u64 = number.parse().map_err(|_| refused())?;
    let bytes = number.checked_mul(factor).ok_or_else(refused)?;
    Ok(ByteSize::from_bytes(bytes))
}

/// Processors as Kubernetes writes them: `2`, `0.5`, or thousandths such as `500m`.
fn cpus(value: &Json) -> Result<String, TaskError> {
    const KEY: &str = "resources.cpu";
    let text = printed(value).ok_or_else(|| wrong(KEY, "a number", value))?;
    let (number, unit) = match text.strip_suffix('m') {
        Some(thousandths) => (thousandths, 1_000.0),
        None => (text.as_str(), 1.0),
    };
    let number: f64 = number.parse().unwrap_or(f64::NAN);
    let cpus = number / unit;
    if cpus > 0.0 && cpus < 100_000.0 {
        return Ok(format!("{cpus:.3}"));
    }
    Err(unreadable(
        KEY,
        &format!("is '{text}', not a number such as 0.5 or 500m"),
    ))
}

/// The variables of the container, with those of the run beneath.
fn variables(call: &Call) -> Result<Vec<(String, String)>, TaskError> {
    let mut variables: Vec<(String, String)> = names_of_the_run(call).into();
    match Config(&call.config).get("env") {
        None => {}
        Some(Json::Map(entries)) => {
            for (name, value) in entries.iter() {
                match value.as_map() {
                    Some(fields) => variables.extend(variable(name, fields)?),
                    None => variables.extend(scalar(name, value)?),
                }
            }
        }
        Some(Json::List(items)) => {
            for item in items.iter() {
                let fields = item
                    .as_map()
                    .ok_or_else(|| wrong("env", "a list of maps", item))?;
                let name = Config(fields)
                    .text("name")?
                    .ok_or_else(|| missing("'env.name'"))?;
                variables.extend(variable(name, fields)?);
            }
        }
        Some(other) => return Err(wrong("env", "a map or a list", other)),
    }
    match variables
        .iter()
        .find(|(name, value)| !is_variable(name, value))
    {
        Some((name, _)) => Err(not_a_variable(name)),
        None => Ok(variables),
    }
}

/// A variable as Kubernetes writes it: `{value}` or `{value_from}`.
fn variable(name: &str, fields: &JsonMap) -> Result<Option<(String, String)>, TaskError> {
    let fields = Config(fields);
    if fields
        .get("value_from")
        .or(fields.get("valueFrom"))
        .is_some()
    {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!(
                "'env.{name}' takes its value from Kubernetes, which runtime: local does not have; \
                 give it a 'value'"
            ),
        ));
    }
    match fields.get("value") {
        Some(value) => scalar(name, value),
        None => Ok(None),
    }
}

fn scalar(name: &str, value: &Json) -> Result<Option<(String, String)>, TaskError> {
    if value.is_null() {
        return Ok(None);
    }
    let text =
        printed(value).ok_or_else(|| wrong(&format!("env.{name}"), "a text or a number", value))?;
    Ok(Some((name.to_owned(), text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_by_the_environment() {
        for name in ["MINE", "_x1", "DB_PASSWORD"] {
            assert!(can_be_handed_on(name), "{name}");
        }
        for name in [
            "PATH",
            "DOCKER_HOST",
            "http_proxy",
            "discovery.type",
            "a-b",
            "1A",
        ] {
            assert!(!can_be_handed_on(name), "{name}");
        }
    }

    #[test]
    fn sizes_and_processors() {
        for (text, bytes) in [
            ("512Mi", 512 << 20),
            ("1Gi", 1 << 30),
            ("64KiB", 64 << 10),
            ("100M", 100_000_000),
            ("4096", 4096),
        ] {
            assert_eq!(memory(&Json::from(text)).unwrap().as_bytes(), bytes);
        }
        assert_eq!(memory(&Json::from(7)).unwrap().as_bytes(), 7);
        for (value, cpu) in [("500m", "0.500"), ("2", "2.000"), ("0.25", "0.250")] {
            assert_eq!(cpus(&Json::from(value)).unwrap(), cpu);
        }
        for wrong in ["", "Mi", "1.5Gi", "-1", "1Ti x"] {
            assert!(memory(&Json::from(wrong)).is_err(), "{wrong}");
        }
        for wrong in ["", "m", "0", "-1", "many", "inf", "NaN"] {
            assert!(cpus(&Json::from(wrong)).is_err(), "{wrong}");
        }
    }
}
