//! Decides whether a file has to be read again: restic's rule and one more, without any I/O. The backup pipeline asks
//! for every file that is in the parent snapshot.

use super::stat::Stat;
use crate::node::{Node, NodeTime};

/// What is not compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangeOptions {
    /// `--ignore-ctime`
    pub ignore_ctime: bool,
    /// `--ignore-inode`: for file systems whose inode numbers are not stable; their ctimes are not reliable either.
    pub ignore_inode: bool,
}

/// Whether the file is unchanged since the parent snapshot, so that its blobs can be reused. `since` is the time when
/// the parent's backup started: a file that was changed after that may have been changed once more after it was read,
/// within the same tick of the file system's clock, and all its times would be the same.
pub fn unchanged(parent: &Node, now: &Stat, since: Option<NodeTime>, options: ChangeOptions) -> bool {
    let is_ctime_ignored = options.ignore_ctime || options.ignore_inode;
    let changed = if is_ctime_ignored { now.mtime } else { now.ctime };
    let is_settled = || since.is_none_or(|since| changed < since);
    let same_ctime = || is_ctime_ignored || parent.ctime == now.ctime;
    let same_inode = || options.ignore_inode || parent.inode == now.inode;
    parent.is_file()
        && now.is_file()
        && parent.size == now.size
        && parent.mtime == now.mtime
        && same_ctime()
        && same_inode()
        && is_settled()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{NodeKind, NodeTime};

    const NOTHING: ChangeOptions = ChangeOptions { ignore_ctime: false, ignore_inode: false };
    const CTIME: ChangeOptions = ChangeOptions { ignore_ctime: true, ignore_inode: false };
    const INODE: ChangeOptions = ChangeOptions { ignore_ctime: false, ignore_inode: true };

    fn node() -> Node {
        Node {
            size: 10,
            mtime: NodeTime::new(100, 5),
            ctime: NodeTime::new(200, 5),
            inode: 7,
            ..Node::default()
        }
    }

    fn stat() -> Stat {
        let (mtime, ctime) = (NodeTime::new(100, 5), NodeTime::new(200, 5));
        Stat { mode: 0o100_644, size: 10, inode: 7, mtime, ctime, ..Stat::default() }
    }

    #[rstest::rstest]
    #[case(node(), stat(), NOTHING, true, "all the same")]
    #[case(Node { mtime: NodeTime { offset: 3600, ..node().mtime }, ..node() }, stat(), NOTHING, true, "another zone")]
    #[case(node(), Stat { atime: NodeTime::new(9, 9), device_id: 9, uid: 9, links: 9, ..stat() }, NOTHING, true,
        "metadata that is always stored again")]
    #[case(node(), Stat { size: 11, ..stat() }, INODE, false, "size")]
    #[case(node(), Stat { mtime: NodeTime::new(100, 6), ..stat() }, INODE, false, "time of modification")]
    #[case(node(), Stat { ctime: NodeTime::new(201, 5), ..stat() }, NOTHING, false, "time of change")]
    #[case(node(), Stat { ctime: NodeTime::new(201, 5), ..stat() }, CTIME, true, "time of change, ignored")]
    #[case(node(), Stat { ctime: NodeTime::new(201, 5), ..stat() }, INODE, true, "ignoring the inode means both")]
    #[case(node(), Stat { inode: 8, ..stat() }, NOTHING, false, "inode")]
    #[case(node(), Stat { inode: 8, ..stat() }, CTIME, false, "inode, while only the time is ignored")]
    #[case(node(), Stat { inode: 8, ..stat() }, INODE, true, "inode, ignored")]
    #[case(Node { kind: NodeKind::Symlink, ..node() }, stat(), INODE, false, "was a link")]
    #[case(node(), Stat { mode: 0o020_644, ..stat() }, INODE, false, "is a device now")]
    fn a_file_is_read_again_when_it_may_have_changed(
        #[case] parent: Node,
        #[case] now: Stat,
        #[case] options: ChangeOptions,
        #[case] expected: bool,
        #[case] reason: &str,
    ) {
        assert_eq!(unchanged(&parent, &now, None, options), expected, "{reason}");
    }

    #[rstest::rstest]
    #[case(NodeTime::new(200, 6), NOTHING, true, "changed before the parent's backup started")]
    #[case(NodeTime::new(200, 5), NOTHING, false, "changed in the tick in which it started")]
    #[case(NodeTime::new(150, 0), NOTHING, false, "changed while it ran")]
    #[case(NodeTime::new(150, 0), CTIME, true, "written before it started; the time of change is ignored")]
    #[case(NodeTime::new(100, 5), INODE, false, "written in the tick in which it started")]
    fn a_file_that_changed_while_the_parent_was_made_is_read_again(
        #[case] since: NodeTime,
        #[case] options: ChangeOptions,
        #[case] expected: bool,
        #[case] reason: &str,
    ) {
        assert_eq!(unchanged(&node(), &stat(), Some(since), options), expected, "{reason}");
    }
}
