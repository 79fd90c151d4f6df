//! Command-line arguments of a container engine, built from a config.

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

use super::volumes;
use crate::call::ToolCall;
use crate::command_line::read_args;
use crate::config::{Config, invalid_value, missing_key, scalar_text, wrong_type};
use crate::program::{execution_variables, invalid_variable, is_valid_variable};
use crate::settings::Settings;

/// Prefixes of the variables that the client of an engine reads itself. The container gets these
/// through the command line, so that they do not affect the client.
const CLIENT_VARIABLE_PREFIXES: [&str; 14] = [
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

/// Arguments and environment of a `run` command.
#[derive(Debug)]
pub(super) struct RunArguments {
    /// Arguments after the name of the container.
    pub(super) args: Vec<String>,
    /// Environment of the client, which passes on the variables of the container. Values on its
    /// command line would be visible to all users of the host.
    pub(super) environment: Vec<(String, String)>,
}

impl RunArguments {
    /// Reads the config of a call.
    pub(super) fn from_call(call: &ToolCall, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let image = read_image(config, settings)?;
        let mut args = label_args(call)?;
        args.extend(limit_args(config, settings)?);
        args.extend(volumes::mount_args(config, settings)?);
        let mut environment = settings.environment.clone();
        environment.extend(settings.container.environment.clone());
        for (name, value) in container_variables(call)? {
            if environment.contains_key(&name) || !can_pass_through_client(&name) {
                args.extend(["--env".to_owned(), format!("{name}={value}")]);
            } else {
                args.extend(["--env".to_owned(), name.clone()]);
                environment.insert(name, value);
            }
        }
        let mut command = read_args(config, "command")?.into_iter();
        if let Some(program) = command.next() {
            args.extend(["--entrypoint".to_owned(), program]);
        }
        args.push(image);
        args.extend(command);
        args.extend(read_args(config, "args")?);
        Ok(Self { args, environment: environment.into_iter().collect() })
    }
}

/// True if a variable of the container can be passed through the environment of the client: the
/// client does not read it itself, and the shell that starts the client does not drop it because of
/// its name.
fn can_pass_through_client(name: &str) -> bool {
    let is_client_variable = CLIENT_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || name.to_ascii_uppercase().ends_with("_PROXY");
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_word && !is_client_variable && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn read_image(config: Config<'_>, settings: &Settings) -> Result<String, TaskError> {
    let image = config.text("image")?.ok_or_else(|| missing_key("'image'"))?;
    // A value that begins with a dash would be parsed as an option.
    if image.is_empty() || image.starts_with('-') || image.contains(char::is_whitespace) {
        return Err(invalid_value(
            "image",
            &format!("is '{image}', which is not a valid image name"),
        ));
    }
    let allows = |rule: &String| match rule.strip_suffix('*') {
        Some(prefix) => image.starts_with(prefix),
        None => image == rule,
    };
    match &settings.container.images {
        Some(rules) if !rules.iter().any(allows) => Err(TaskError::new(
            TaskErrorKind::Auth,
            format!(
                "the image '{image}' is not allowed; the operator can add it to \
                 NOETL_CONTAINER_IMAGES"
            ),
        )),
        Some(_) | None => Ok(image.to_owned()),
    }
}

/// Labels that identify the execution of a container to operators.
fn label_args(call: &ToolCall) -> Result<Vec<String>, TaskError> {
    let mut labels = Config(&call.config).text_map("labels")?;
    labels.extend([
        ("io.noetl.execution".to_owned(), call.execution_id.clone()),
        ("io.noetl.step".to_owned(), call.step.clone()),
    ]);
    let labels = labels.into_iter();
    Ok(labels.flat_map(|(name, value)| ["--label".to_owned(), format!("{name}={value}")]).collect())
}

/// Limits of a container: those of the config, else those of any process.
fn limit_args(config: Config<'_>, settings: &Settings) -> Result<Vec<String>, TaskError> {
    let resources = config.map("resources")?;
    // Resource requests select a machine, and here there is only one.
    let requested = |name: &str| {
        let limits = resources?.get("limits").and_then(Json::as_map);
        Config(limits.or(resources)?).get(name)
    };
    let memory = match (requested("memory"), settings.process_limits.memory) {
        (Some(value), limit) => Some(check_memory_limit(limit, parse_memory(value)?)?),
        (None, limit) => limit,
    };
    let mut args = vec!["--security-opt".to_owned(), "no-new-privileges".to_owned()];
    if settings.sandbox.is_offline {
        args.extend(["--network".to_owned(), "none".to_owned()]);
    }
    if let Some(memory) = memory {
        let bytes = memory.as_bytes().to_string();
        // The same limit with swap means no swap.
        args.extend(["--memory".into(), bytes.clone(), "--memory-swap".into(), bytes]);
    }
    if let Some(value) = requested("cpu") {
        args.extend(["--cpus".to_owned(), parse_cpus(value)?]);
    }
    if let Some(processes) = settings.process_limits.processes {
        args.extend(["--pids-limit".to_owned(), processes.to_string()]);
    }
    Ok(args)
}

/// Returns the requested memory if the operator allows it.
fn check_memory_limit(limit: Option<ByteSize>, requested: ByteSize) -> Result<ByteSize, TaskError> {
    match limit {
        Some(limit) if requested > limit => Err(TaskError::new(
            TaskErrorKind::Limit,
            format!(
                "'resources' requests {requested} of memory; the limit is {limit} \
                 (NOETL_TASK_MEMORY)"
            ),
        )),
        Some(_) | None => Ok(requested),
    }
}

/// Parses a size in Kubernetes notation: `512Mi`, `1G`, or a number of bytes.
fn parse_memory(value: &Json) -> Result<ByteSize, TaskError> {
    const KEY: &str = "resources.memory";
    let text = scalar_text(value).ok_or_else(|| wrong_type(KEY, "a size", value))?;
    let invalid = || invalid_value(KEY, &format!("is '{text}'; it must be a size such as 512Mi"));
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" | "KB" => 1_000,
        "M" | "MB" => 1_000_000,
        "G" | "GB" => 1_000_000_000,
        "Ki" | "KiB" => 1 << 10,
        "Mi" | "MiB" => 1 << 20,
        "Gi" | "GiB" => 1 << 30,
        _ => return Err(invalid()),
    };
    let number: u64 = number.parse().map_err(|_| invalid())?;
    let bytes = number.checked_mul(factor).ok_or_else(invalid)?;
    Ok(ByteSize::from_bytes(bytes))
}

/// Parses a CPU quantity in Kubernetes notation: `2`, `0.5`, or thousandths such as `500m`.
fn parse_cpus(value: &Json) -> Result<String, TaskError> {
    const KEY: &str = "resources.cpu";
    let text = scalar_text(value).ok_or_else(|| wrong_type(KEY, "a number", value))?;
    let (number, unit) = match text.strip_suffix('m') {
        Some(thousandths) => (thousandths, 1_000.0),
        None => (text.as_str(), 1.0),
    };
    let number: f64 = number.parse().unwrap_or(f64::NAN);
    let cpus = number / unit;
    if cpus > 0.0 && cpus < 100_000.0 {
        return Ok(format!("{cpus:.3}"));
    }
    Err(invalid_value(KEY, &format!("is '{text}'; it must be a number such as 0.5 or 500m")))
}

/// Variables of the container. They override those of the execution.
fn container_variables(call: &ToolCall) -> Result<Vec<(String, String)>, TaskError> {
    let mut variables: Vec<(String, String)> = execution_variables(call).into();
    match Config(&call.config).get("env") {
        None => {}
        Some(Json::Map(entries)) => {
            for (name, value) in entries.iter() {
                match value.as_map() {
                    Some(fields) => variables.extend(read_variable(name, fields)?),
                    None => variables.extend(scalar_variable(name, value)?),
                }
            }
        }
        Some(Json::List(items)) => {
            for item in items.iter() {
                let fields =
                    item.as_map().ok_or_else(|| wrong_type("env", "a list of maps", item))?;
                let name = Config(fields).text("name")?.ok_or_else(|| missing_key("'env.name'"))?;
                variables.extend(read_variable(name, fields)?);
            }
        }
        Some(other) => return Err(wrong_type("env", "a map or a list", other)),
    }
    match variables.iter().find(|(name, value)| !is_valid_variable(name, value)) {
        Some((name, _)) => Err(invalid_variable(name)),
        None => Ok(variables),
    }
}

/// Reads a variable in Kubernetes notation: `{value}` or `{value_from}`.
fn read_variable(name: &str, fields: &JsonMap) -> Result<Option<(String, String)>, TaskError> {
    let fields = Config(fields);
    if fields.get("value_from").or(fields.get("valueFrom")).is_some() {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!(
                "'env.{name}' uses value_from, which runtime: local does not support; \
                 set 'value' instead"
            ),
        ));
    }
    match fields.get("value") {
        Some(value) => scalar_variable(name, value),
        None => Ok(None),
    }
}

fn scalar_variable(name: &str, value: &Json) -> Result<Option<(String, String)>, TaskError> {
    if value.is_null() {
        return Ok(None);
    }
    let text = scalar_text(value)
        .ok_or_else(|| wrong_type(&format!("env.{name}"), "a text or a number", value))?;
    Ok(Some((name.to_owned(), text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_forwardable_variable_names() {
        for name in ["MINE", "_x1", "DB_PASSWORD"] {
            assert!(can_pass_through_client(name), "{name}");
        }
        for name in ["PATH", "DOCKER_HOST", "http_proxy", "discovery.type", "a-b", "1A"] {
            assert!(!can_pass_through_client(name), "{name}");
        }
    }

    #[test]
    fn parses_memory_and_cpu_limits() {
        for (text, bytes) in [
            ("512Mi", 512 << 20),
            ("1Gi", 1 << 30),
            ("64KiB", 64 << 10),
            ("100M", 100_000_000),
            ("4096", 4096),
        ] {
            assert_eq!(parse_memory(&Json::from(text)).unwrap().as_bytes(), bytes);
        }
        assert_eq!(parse_memory(&Json::from(7)).unwrap().as_bytes(), 7);
        for (value, cpu) in [("500m", "0.500"), ("2", "2.000"), ("0.25", "0.250")] {
            assert_eq!(parse_cpus(&Json::from(value)).unwrap(), cpu);
        }
        for wrong in ["", "Mi", "1.5Gi", "-1", "1Ti x"] {
            assert!(parse_memory(&Json::from(wrong)).is_err(), "{wrong}");
        }
        for wrong in ["", "m", "0", "-1", "many", "inf", "NaN"] {
            assert!(parse_cpus(&Json::from(wrong)).is_err(), "{wrong}");
        }
    }
}
