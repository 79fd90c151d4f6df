//! Mounts of host directories and engine volumes in a container.

use std::path::Path;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, invalid_value, missing_key, wrong_type};
use crate::file_access::check_mount_source;
use crate::settings::Settings;

/// A mount: its source and its target.
struct VolumeMount<'m> {
    source: VolumeSource<'m>,
    target: &'m str,
    read_only: bool,
}

/// Source of a mount.
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
pub(super) fn mount_args(
    config: Config<'_>,
    settings: &Settings,
) -> Result<Vec<String>, TaskError> {
    let volumes = read_list(config, "volumes")?;
    let volume_mounts = read_list(config, "volume_mounts")?;
    let mut mounts = Vec::new();
    for volume in volumes {
        match volume {
            Json::Str(text) => mounts.push(parse_short_mount(text)?),
            Json::Map(fields) => {
                let fields = Config(fields);
                if let Some(target) = first_text(fields, &["mount_path", "mountPath", "target"])? {
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

fn read_list<'c>(config: Config<'c>, key: &str) -> Result<&'c [Json], TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(&[]);
    };
    value.as_list().ok_or_else(|| wrong_type(key, "a list", value))
}

fn first_text<'c>(fields: Config<'c>, keys: &[&str]) -> Result<Option<&'c str>, TaskError> {
    for key in keys {
        if let Some(text) = fields.text(key)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
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
    let target = first_text(fields, &["mount_path", "mountPath", "target"])?;
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
    if let Some(name) = first_text(fields, &["volume", "source"])? {
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
                format!(
                    "type=bind,source={}",
                    check_mount_text(&resolve_host_path(path, settings)?)?
                )
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
    let real = real.to_str();
    let real = real.ok_or_else(|| invalid_value("volumes", "contains a path that is not UTF-8"))?;
    Ok(real.to_owned())
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
