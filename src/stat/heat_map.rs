//! Delays over time: counted for a heat map, and kept one by one for its data file until they are
//! taken.

use super::leaf::Leaf;
use crate::base::report::delay_map::DelayMap;

/// Maximum number of delays kept between two calls of [`HeatMap::take_points`]: one iteration of
/// the run, 4 MiB.
const POINTS: usize = 1 << 18;

/// One delay, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Time at which it ended, since the run began.
    pub time: f64,
    /// Length of the delay.
    pub delay: f64,
}

/// The delays of a run.
#[derive(Debug, Default)]
pub struct HeatMap {
    map: DelayMap,
    points: Vec<Point>,
    keeps_points: bool,
    dropped: u64,
    disordered: u64,
}

impl HeatMap {
    /// Keeps each delay from now on, until it is taken.
    pub fn keep_points(&mut self) {
        self.keeps_points = true;
    }

    /// Adds a delay.
    #[inline]
    pub fn add(&mut self, point: Point) {
        if !self.map.add(point.time, point.delay) {
            self.disordered += 1;
        } else if self.keeps_points {
            match self.points.len() < POINTS {
                true => self.points.push(point),
                false => self.dropped += 1,
            }
        }
    }

    /// Calls `take` with each delay kept since the previous call.
    pub fn take_points(&mut self, mut take: impl FnMut(Point)) {
        self.points.drain(..).for_each(&mut take);
    }

    /// Returns the counts to draw.
    pub fn map(&self) -> &DelayMap {
        &self.map
    }

    /// Returns the number of delays that were counted but not kept, for lack of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the number of negative values and NaN, which are neither counted nor kept: the ends
    /// of a pair arrived in the wrong order.
    pub fn disordered(&self) -> u64 {
        self.disordered
    }
}

impl Leaf for HeatMap {
    /// Doubles: the time, then the delay.
    #[inline(always)]
    fn take(&mut self, doubles: &[f64], _flags: u32) -> u32 {
        if let [time, delay] = *doubles {
            self.add(Point { time, delay });
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_kept_from_the_request_until_they_are_read() {
        let point = |delay| Point { time: 1.0, delay };
        let mut heat = HeatMap::default();
        heat.add(point(1.0));
        heat.keep_points();
        [point(2.0), point(3.0), point(-1.0)].into_iter().for_each(|point| heat.add(point));
        let mut delays = Vec::new();
        heat.take_points(|point| delays.push(point.delay));
        heat.take_points(|_| panic!("each point is returned once"));
        assert_eq!((delays, heat.map().total(), heat.disordered()), (vec![2.0, 3.0], 3, 1));
    }

    #[test]
    fn unread_points_are_bounded_and_counted() {
        let mut heat = HeatMap::default();
        heat.keep_points();
        (0..POINTS + 7).for_each(|i| heat.add(Point { time: i as f64, delay: 1.0 }));
        assert_eq!((heat.points.len(), heat.dropped()), (POINTS, 7));
        assert_eq!(heat.map().total(), (POINTS + 7) as u64);
    }
}
