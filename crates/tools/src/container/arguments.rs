//! Command-line arguments of a container engine, built from a config.

use std::path::Path;

use noetl_types::{ByteSize, Json, JsonMap, TaskError, TaskErrorKind};

use crate::call::ToolCall;
use crate::command_line::read_args;
use crate::config::{Config, invalid_value, missing_key, required_scalar, scalar_text, wrong_type};
use crate::file_access::check_mount_source;
use crate::program::{check_variables, execution_variables};
use crate::settings::Settings;

/// Prefixes of the variables that the client of an engine reads itself. The container gets these
/// through the command line, so that they do not affect the client.
const CLIENT_VARIABLE_PREFIXES: [&str; 14] = [
    "PATH", "HOME", "TMPDIR", "LD_", "DYLD_", "GO", "DOCKER_", "BUILDKIT_", "CONTAINER", "PODMAN_",
    "REGISTRY_", "STORAGE_", "XDG_", "SSL_",
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
    pub(super) fn from_call(call: &ToolCall, settings: &Settings) -> Result<Self, TaskError> {
        let config = Config(&call.config);
        let image = read_image(config, settings)?;
        let mut args = label_args(call)?;
        args.extend(limit_args(config, settings)?);
        args.extend(mount_args(config, settings)?);
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
        let problem = format!("is '{image}', which is not a valid image name");
        return Err(invalid_value("image", &problem));
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
                let value = match value.as_map() {
                    Some(fields) => read_variable_value(name, fields)?,
                    None => value,
                };
                variables.extend(to_variable(name, value)?);
            }
        }
        Some(Json::List(items)) => {
            for item in items.iter() {
                let fields =
                    item.as_map().ok_or_else(|| wrong_type("env", "a list of maps", item))?;
                let name = Config(fields).text("name")?.ok_or_else(|| missing_key("'env.name'"))?;
                variables.extend(to_variable(name, read_variable_value(name, fields)?)?);
            }
        }
        Some(other) => return Err(wrong_type("env", "a map or a list", other)),
    }
    check_variables(variables.iter().map(|(name, value)| (name, value)))?;
    Ok(variables)
}

/// Reads the value of a variable in Kubernetes notation: `{value}` or `{value_from}`.
fn read_variable_value<'v>(name: &str, fields: &'v JsonMap) -> Result<&'v Json, TaskError> {
    if Config(fields).get("value_from").or(Config(fields).get("valueFrom")).is_some() {
        return Err(TaskError::new(
            TaskErrorKind::Unsupported,
            format!(
                "'env.{name}' uses value_from, which runtime: local does not support; \
                 set 'value' instead"
            ),
        ));
    }
    Ok(fields.get("value").unwrap_or(&Json::Null))
}

/// Converts a value to a variable. Null is no variable.
fn to_variable(name: &str, value: &Json) -> Result<Option<(String, String)>, TaskError> {
    if value.is_null() {
        return Ok(None);
    }
    Ok(Some((name.to_owned(), required_scalar(&format!("env.{name}"), value)?)))
}

/// Keys that hold the target of a mount.
const TARGET_KEYS: &[&str] = &["mount_path", "mountPath", "target"];

struct VolumeMount<'m> {
    source: VolumeSource<'m>,
    target: &'m str,
    read_only: bool,
}

#[derive(Clone, Copy)]
enum VolumeSource<'m> {
    /// Directory or file of the host.
    Host(&'m str),
    /// Named volume of the engine.
    Volume(&'m str),
    /// New volume that is removed with the container.
    Empty,
}

/// Arguments for the mounts of a config: texts as `source:target[:ro]`, maps with both, or
/// `volumes` with `volume_mounts` in Kubernetes notation.
fn mount_args(config: Config<'_>, settings: &Settings) -> Result<Vec<String>, TaskError> {
    let volumes = config.list("volumes")?;
    let volume_mounts = config.list("volume_mounts")?;
    let mut mounts = Vec::new();
    for volume in volumes {
        match volume {
            Json::Str(text) => mounts.push(parse_short_mount(text)?),
            Json::Map(fields) => {
                let fields = Config(fields);
                if let Some(target) = fields.first_text(TARGET_KEYS)? {
                    mounts.push(VolumeMount {
                        source: read_source(fields)?,
                        target,
                        read_only: is_read_only(fields)?,
                    });
                }
            }
            other => return Err(wrong_type("volumes", "a list of texts or maps", other)),
        }
    }
    for entry in volume_mounts {
        mounts.push(read_volume_mount(entry, volumes)?);
    }
    let mut args = Vec::new();
    for mount in mounts {
        args.extend(["--mount".to_owned(), mount.to_arg(settings)?]);
    }
    Ok(args)
}

fn is_read_only(fields: Config<'_>) -> Result<bool, TaskError> {
    let flag = fields.flag("read_only")?.or(fields.flag("readOnly")?);
    Ok(flag.unwrap_or(false))
}

/// Parses `source:target` or `source:target:ro`.
fn parse_short_mount(text: &str) -> Result<VolumeMount<'_>, TaskError> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, mode) = match parts[..] {
        [source, target] => (source, target, "rw"),
        [source, target, mode @ ("ro" | "rw")] => (source, target, mode),
        _ => {
            let problem =
                format!("contains '{text}'; it must be source:target or source:target:ro");
            return Err(invalid_value("volumes", &problem));
        }
    };
    let is_host = source.contains('/') || source.starts_with(['.', '~']);
    Ok(VolumeMount {
        source: if is_host { VolumeSource::Host(source) } else { VolumeSource::Volume(source) },
        target,
        read_only: mode == "ro",
    })
}

/// Reads an entry of `volume_mounts` whose volume is in `volumes`.
fn read_volume_mount<'m>(
    entry: &'m Json,
    volumes: &'m [Json],
) -> Result<VolumeMount<'m>, TaskError> {
    let fields =
        entry.as_map().ok_or_else(|| wrong_type("volume_mounts", "a list of maps", entry))?;
    let fields = Config(fields);
    let name = fields.text("name")?.ok_or_else(|| missing_key("'volume_mounts.name'"))?;
    let is_named = |fields: &&JsonMap| fields.get("name").and_then(Json::as_str) == Some(name);
    let volume = volumes.iter().filter_map(Json::as_map).find(is_named);
    let volume = volume.ok_or_else(|| {
        let problem = format!("names the volume '{name}', which is not in 'volumes'");
        invalid_value("volume_mounts", &problem)
    })?;
    let target = fields.first_text(TARGET_KEYS)?;
    Ok(VolumeMount {
        source: read_source(Config(volume))?,
        target: target.ok_or_else(|| missing_key("'volume_mounts.mount_path'"))?,
        read_only: is_read_only(fields)?,
    })
}

fn read_source(fields: Config<'_>) -> Result<VolumeSource<'_>, TaskError> {
    for key in ["host_path", "hostPath"] {
        match fields.get(key) {
            None => {}
            Some(Json::Str(path)) => return Ok(VolumeSource::Host(path)),
            Some(Json::Map(inner)) => {
                let path = Config(inner).text("path")?;
                let path = path.ok_or_else(|| missing_key("'volumes.host_path.path'"))?;
                return Ok(VolumeSource::Host(path));
            }
            Some(other) => return Err(wrong_type("volumes.host_path", "a text or a map", other)),
        }
    }
    if fields.get("empty_dir").or(fields.get("emptyDir")).is_some() {
        return Ok(VolumeSource::Empty);
    }
    if let Some(name) = fields.first_text(&["volume", "source"])? {
        return Ok(if name.contains('/') {
            VolumeSource::Host(name)
        } else {
            VolumeSource::Volume(name)
        });
    }
    Err(TaskError::new(
        TaskErrorKind::Unsupported,
        "'volumes' contains an unsupported volume; use host_path, empty_dir or a volume of the \
         engine (other types require Kubernetes)",
    ))
}

impl VolumeMount<'_> {
    fn to_arg(&self, settings: &Settings) -> Result<String, TaskError> {
        let mut arg = match self.source {
            VolumeSource::Host(path) => {
                let path = resolve_host_path(path, settings)?;
                format!("type=bind,source={}", check_mount_text(&path)?)
            }
            VolumeSource::Volume(name) => format!("type=volume,source={}", check_mount_text(name)?),
            VolumeSource::Empty => "type=volume".to_owned(),
        };
        if !self.target.starts_with('/') {
            let problem =
                format!("has the target '{}', which is not an absolute path", self.target);
            return Err(invalid_value("volumes", &problem));
        }
        arg += &format!(",target={}", check_mount_text(self.target)?);
        if self.read_only {
            arg += ",readonly";
        }
        Ok(arg)
    }
}

/// Resolves the links of a path, so that the checked path is the mounted one.
fn resolve_host_path(path: &str, settings: &Settings) -> Result<String, TaskError> {
    if !path.starts_with('/') {
        let problem = format!("contains '{path}', which is not an absolute path");
        return Err(invalid_value("volumes", &problem));
    }
    let real = Path::new(path).canonicalize().map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => TaskErrorKind::NotFound,
            _ => TaskErrorKind::StorageAccess,
        };
        TaskError::new(kind, format!("'{path}' cannot be mounted: {error}"))
    })?;
    check_mount_source(&real, &format!("'{path}'"), settings)?;
    let real = real.into_os_string().into_string();
    real.map_err(|_| invalid_value("volumes", "contains a path that is not UTF-8"))
}

/// Rejects text that a comma-separated list cannot hold: commas and quotes.
fn check_mount_text(text: &str) -> Result<&str, TaskError> {
    if text.is_empty() || text.contains([',', '"', '\n', '\0']) {
        let problem = format!(
            "contains '{text}', which cannot be mounted: it is empty or has a comma, a quote, a \
             line break or a NUL"
        );
        return Err(invalid_value("volumes", &problem));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
