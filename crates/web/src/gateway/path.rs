//! The paths of the protocol, compared as they were sent: nothing is decoded or normalised, so no path leads out of the
//! repository of its token. Pure.

/// The types of files that are named by the SHA-256 of their content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    Data,
    Index,
    Key,
    Lock,
    Snapshot,
}

impl FileType {
    const ALL: [Self; 5] = [Self::Data, Self::Index, Self::Key, Self::Lock, Self::Snapshot];

    /// The directory of the protocol.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Index => "index",
            Self::Key => "keys",
            Self::Lock => "locks",
            Self::Snapshot => "snapshots",
        }
    }
}

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName {
    Config,
    /// The name is 64 lower-case hexadecimal digits.
    Of(FileType, String),
}

impl std::fmt::Display for FileName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config => f.write_str("config"),
            Self::Of(file_type, id) => write!(f, "{}/{id}", file_type.directory()),
        }
    }
}

/// What a path stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The repository itself.
    Root,
    List(FileType),
    File(FileName),
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// It does not start with the repository of the token.
    Elsewhere,
    Unknown,
}

/// What a path stands for, for the token of this repository.
pub(super) fn route(path: &str, repository: &str) -> Result<Route, NoRoute> {
    let below = path.strip_prefix('/').and_then(|path| path.strip_prefix(repository));
    let Some(rest) = below.and_then(|rest| rest.strip_prefix('/')) else { return Err(NoRoute::Elsewhere) };
    if rest.is_empty() {
        return Ok(Route::Root);
    }
    if rest == "config" {
        return Ok(Route::File(FileName::Config));
    }
    let (directory, name) = rest.split_once('/').ok_or(NoRoute::Unknown)?;
    let known = FileType::ALL.into_iter().find(|file_type| file_type.directory() == directory);
    match (known, name) {
        (Some(file_type), "") => Ok(Route::List(file_type)),
        (Some(file_type), id) if is_id(id) => Ok(Route::File(FileName::Of(file_type, id.to_owned()))),
        _ => Err(NoRoute::Unknown),
    }
}

fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const ID: &str = "245bc4c430d393f74fbe7b13325e30dbde9fb0745e50caad57c446c93d20096b";

    fn file(file_type: FileType) -> Route {
        Route::File(FileName::Of(file_type, ID.to_owned()))
    }

    #[rstest]
    #[case::root("/stash/shop/r/", Ok(Route::Root))]
    #[case::config("/stash/shop/r/config", Ok(Route::File(FileName::Config)))]
    #[case::packs("/stash/shop/r/data/", Ok(Route::List(FileType::Data)))]
    #[case::locks("/stash/shop/r/locks/", Ok(Route::List(FileType::Lock)))]
    #[case::pack("/stash/shop/r/data/ID", Ok(file(FileType::Data)))]
    #[case::index("/stash/shop/r/index/ID", Ok(file(FileType::Index)))]
    #[case::key("/stash/shop/r/keys/ID", Ok(file(FileType::Key)))]
    #[case::snapshot("/stash/shop/r/snapshots/ID", Ok(file(FileType::Snapshot)))]
    #[case::without_a_slash("/stash/shop/r", Err(NoRoute::Elsewhere))]
    #[case::other_repository("/stash/shop/other/config", Err(NoRoute::Elsewhere))]
    #[case::longer_name("/stash/shop/r2/config", Err(NoRoute::Elsewhere))]
    #[case::other_namespace("/stash/bank/r/config", Err(NoRoute::Elsewhere))]
    #[case::up_and_down("/stash/shop/other/../r/config", Err(NoRoute::Elsewhere))]
    #[case::double_slash("//stash/shop/r/config", Err(NoRoute::Elsewhere))]
    #[case::nothing("", Err(NoRoute::Elsewhere))]
    #[case::up("/stash/shop/r/../other/config", Err(NoRoute::Unknown))]
    #[case::up_encoded("/stash/shop/r/..%2fother/config", Err(NoRoute::Unknown))]
    #[case::up_in_a_type("/stash/shop/r/data/..%2f..%2fconfig", Err(NoRoute::Unknown))]
    #[case::encoded("/stash/shop/r/%63onfig", Err(NoRoute::Unknown))]
    #[case::up_in_a_name("/stash/shop/r/data/../config", Err(NoRoute::Unknown))]
    #[case::unknown_type("/stash/shop/r/lifeboat/prune/ID", Err(NoRoute::Unknown))]
    #[case::type_without_a_slash("/stash/shop/r/data", Err(NoRoute::Unknown))]
    #[case::deeper("/stash/shop/r/data/24/ID", Err(NoRoute::Unknown))]
    #[case::below_a_file("/stash/shop/r/data/ID/", Err(NoRoute::Unknown))]
    #[case::capitals("/stash/shop/r/data/IDUP", Err(NoRoute::Unknown))]
    #[case::short("/stash/shop/r/data/abc", Err(NoRoute::Unknown))]
    #[case::below_the_config("/stash/shop/r/config/", Err(NoRoute::Unknown))]
    fn a_path_stands_for_a_file_of_its_own_repository_or_for_nothing(
        #[case] path: &str,
        #[case] expected: Result<Route, NoRoute>,
    ) {
        let path = path.replace("IDUP", &ID.to_uppercase()).replace("ID", ID);
        assert_eq!(route(&path, "stash/shop/r"), expected);
    }
}
