//! The UTC offset with which times are written. restic writes times in the machine's time zone, so our snapshots have
//! the same bytes only with the same offsets.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::node::NodeTime;

/// The time zone of the machine. Most servers use UTC: then no time needs a lookup.
#[derive(Debug, Clone)]
pub(super) struct Zone {
    zone: TimeZone,
    fixed: Option<i32>,
}

impl Zone {
    pub(super) fn of_system() -> Self {
        Self::new(TimeZone::system())
    }

    pub(super) fn new(zone: TimeZone) -> Self {
        let constant = zone.following(Timestamp::MIN).next().is_none();
        let fixed = constant.then(|| zone.to_offset(Timestamp::UNIX_EPOCH).seconds());
        Self { zone, fixed }
    }

    /// This time with the zone's offset at that time.
    pub(super) fn local(&self, time: NodeTime) -> NodeTime {
        let offset = self.fixed.unwrap_or_else(|| {
            let seconds = time.seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
            Timestamp::from_second(seconds).map_or(0, |moment| self.zone.to_offset(moment).seconds())
        });
        NodeTime { offset, ..time }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::Offset;

    #[test]
    fn a_zone_with_summer_time_has_the_offset_of_the_moment() {
        let zone = Zone::new(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap());
        assert_eq!(zone.fixed, None);
        let offsets = [1_768_435_200, 1_784_073_600, i64::MIN, i64::MAX]
            .map(|seconds| zone.local(NodeTime::new(seconds, 0)).offset);
        assert_eq!(offsets, [3600, 7200, 3600, 3600]);
    }

    #[test]
    fn a_zone_without_changes_needs_no_look_up() {
        assert_eq!(Zone::new(TimeZone::UTC).fixed, Some(0));
        assert_eq!(Zone::new(TimeZone::fixed(Offset::constant(5))).fixed, Some(5 * 3600));
    }
}
