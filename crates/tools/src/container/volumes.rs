//! Folders of the machine and volumes of the engine inside of a container.

use std::path::Path;

use noetl_types::{Json, JsonMap, TaskError, TaskErrorKind};

use crate::config::{Config, missing, unreadable, wrong};
use crate::roots::check_mount;
use crate::settings::Settings;

/// What is mounted, and where.
struct Mount<'m> {
    source: Source<'m>,
    target: &'m str,
    read_only: bool,
}

/// What is mounted.
#[derive(Clone, Copy)]
enum Source<'m> {
    /// A folder or file of the machine.
    Host(&'m str),
    /// A volume that the engine keeps.
    Volume(&'m str),
    /// A new volume that goes away with the container.
    Empty,
}

/// The words that mount what a config asks for: texts as `source:target[:ro]`, maps with both, or
/// `volumes` with `volume_mounts` as Kubernetes has them.
pub(super) fn mounts(config: Config<'_>, settings: &Settings) -> Result<Vec<String>, TaskError> {
    let volumes = list(config, "volumes")?;
    let places = list(config, "volume_mounts")?;
    let mut mounts = Vec::new();
    for volume in volumes {
        match volume {
            Json::Str(text) => mounts.push(short(text)?),
            Json::Map(fields) => {
                let fields = Config(fields);
                if let Some(target) = either(fields, &["mount_path", "mountPath", "target"])? {
                    mounts.push(Mount {
                        source: source(fields)?,
                        target,
                        read_only: is_read_only(fields)?,
                    });
                }
            }
            other => return Err(wrong("volumes", "a list of texts or maps", other)),
        }
    }
    for place in places {
        mounts.push(named(place, volumes)?);
    }
    let mut words = Vec::new();
    for mount in mounts {
        words.extend(["--mount".to_owned(), mount.word(settings)?]);
    }
    Ok(words)
}

fn list<'c>(config: Config<'c>, key: &str) -> Result<&'c [Json], TaskError> {
    let Some(value) = config.get(key) else {
        return Ok(&[]);
    };
    value.as_list().ok_or_else(|| wrong(key, "a list", value))
}

fn either<'c>(fields: Config<'c>, keys: &[&str]) -> Result<Option<&'c str>, TaskError> {
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

/// `source:target`, or `source:target:ro`.
fn short(text: &str) -> Result<Mount<'_>, TaskError> {
    let parts: Vec<&str> = text.split(':').collect();
    let (source, target, mode) = match parts[..] {
        [source, target] => (source, target, "rw"),
        [source, target, mode @ ("ro" | "rw")] => (source, target, mode),
        _ => {
            let why = format!("holds '{text}', which is not source:target or source:target:ro");
            return Err(unreadable("volumes", &why));
        }
    };
    let is_host = source.contains('/') || source.starts_with(['.', '~']);
    Ok(Mount {
        source: if is_host {
            Source::Host(source)
        } else {
            Source::Volume(source)
        },
        target,
        read_only: mode == "ro",
    })
}

/// A place whose volume stands in the other list.
fn named<'m>(place: &'m Json, volumes: &'m [Json]) -> Result<Mount<'m>, TaskError> {
    let fields = place
        .as_map()
        .ok_or_else(|| wrong("volume_mounts", "a list of maps", place))?;
    let fields = Config(fields);
    let name = fields
        .text("name")?
        .ok_or_else(|| missing("'volume_mounts.name'"))?;
    let is_named = |fields: &&JsonMap| fields.get("name").and_then(Json::as_str) == Some(name);
    let volume = volumes.iter().filter_map(Json::as_map).find(is_named);
    let volume = volume.ok_or_else(|| {
        let why = format!("names the volume '{name}', which 'volumes' does not have");
        unreadable("volume_mounts", &why)
    })?;
    let target = either(fields, &["mount_path", "mountPath", "target"])?;
    Ok(Mount {
        source: source(Config(volume))?,
        target: target.ok_or_else(|| missing("'volume_mounts.mount_path'"))?,
        read_only: is_read_only(fields)?,
    })
}

fn source(fields: Config<'_>) -> Result<Source<'_>, TaskError> {
    for key in ["host_path", "hostPath"] {
        match fields.get(key) {
            None => {}
            Some(Json::Str(path)) => return Ok(Source::Host(path)),
            Some(Json::Map(inner)) => {
                let path = Config(inner).text("path")?;
                let path = path.ok_or_else(|| missing("'volumes.host_path.path'"))?;
                return Ok(Source::Host(path));
            }
            Some(other) => return Err(wrong("volumes.host_path", "a text or a map", other)),
        }
    }
    if fields.get("empty_dir").or(fields.get("emptyDir")).is_some() {
        return Ok(Source::Empty);
    }
    if let Some(name) = either(fields, &["volume", "source"])? {
        return Ok(if name.contains('/') {
            Source::Host(name)
        } else {
            Source::Volume(name)
        });
    }
    Err(TaskError::new(
        TaskErrorKind::Unsupported,
        "'volumes' holds one that is neither host_path, empty_dir nor a volume of the engine; \
         others need Kubernetes",
    ))
}

impl Mount<'_> {
    fn word(&self, settings: &Settings) -> Result<String, TaskError> {
        let mut word = match self.source {
            Source::Host(path) => {
                format!("type=bind,source={}", plain(&host_path(path, settings)?)?)
            }
            Source::Volume(name) => format!("type=volume,source={}", plain(name)?),
            Source::Empty => "type=volume".to_owned(),
        };
        if !self.target.starts_with('/') {
            let why = format!("leads to '{}', which is not absolute", self.target);
            return Err(unreadable("volumes", &why));
        }
        word += &format!(",target={}", plain(self.target)?);
        if self.read_only {
            word += ",readonly";
        }
        Ok(word)
    }
}

/// The path with its links resolved, so that what was checked is what is mounted.
fn host_path(path: &str, settings: &Settings) -> Result<String, TaskError> {
    if !path.starts_with('/') {
        let why = format!("holds the path '{path}', which is not absolute");
        return Err(unreadable("volumes", &why));
    }
    let real = Path::new(path).canonicalize().map_err(|error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => TaskErrorKind::NotFound,
            _ => TaskErrorKind::StorageAccess,
        };
        TaskError::new(kind, format!("'{path}' cannot be mounted: {error}"))
    })?;
    check_mount(&real, &format!("'{path}'"), settings)?;
    let real = real.to_str();
    let real = real.ok_or_else(|| unreadable("volumes", "holds a path that is not UTF-8"))?;
    Ok(real.to_owned())
}

/// A word of a list with commas can hold neither those nor quotes.
fn plain(text: &str) -> Result<&str, TaskError> {
    if text.is_empty() || text.contains([',', '"', '\n', '\0']) {
        let why = format!("holds '{text}', which cannot be mounted");
        return Err(unreadable("volumes", &why));
    }
    Ok(text)
}
