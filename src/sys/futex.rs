//! The task that holds a futex, read from the memory of the process that waits for it.
//!
//! A futex is a word of 32 bits in user memory, and only some uses of it contain the holder: a
//! futex with priority inheritance, and a robust one, have its thread id in the word
//! (`FUTEX_TID_MASK`, Documentation/locking/pi-futex.rst and robust-futex-ABI.rst). A mutex of
//! glibc has the word 2 while a task waits, and its owner behind it (`struct __pthread_mutex_s` in
//! sysdeps/nptl/bits/struct_mutex.h). Other memory may look like that, so each field is checked.
//!
//! The memory is that of the moment of the call. The caller compares the time of the call with the
//! end of the wait: the answer is true if the wait lasted longer.

use std::io;
use std::mem::size_of_val;

/// `FUTEX_WAITERS` and `FUTEX_TID_MASK` of include/uapi/linux/futex.h.
const WAITERS: u32 = 0x8000_0000;
const TID_MASK: u32 = 0x3fff_ffff;

/// The word of a normal mutex of musl, which is held and waited for: `EBUSY`, not a thread.
const MUSL_NORMAL: u32 = libc::EBUSY as u32;

/// The word of a mutex of glibc that is held and waited for.
const CONTENDED: u32 = 2;

/// The bits of `__kind` of a mutex of glibc that names its owner at once: the type, elision, and
/// whether processes share it. Others are robust, or have priority inheritance or protection.
const KINDS: u32 = 0x3 | 0x300 | 0x80;

/// Returns the thread id of the task that holds the futex at `address` of a process, as this
/// process sees it; None if the futex does not contain it, or the process is in another pid
/// namespace, where ids differ. With `pi` the futex has priority inheritance.
///
/// # Errors
/// There is no such process or memory, or this user may not read it.
pub fn holder(pid: u32, address: u64, pi: bool) -> io::Result<Option<u32>> {
    let (mut words, word) = ([0; 5], &mut [0]);
    // The futex may be the last word of its page.
    let words = match read(pid, address, &mut words) {
        Ok(()) => &words[..],
        Err(_) => {
            read(pid, address, word)?;
            &word[..]
        }
    };
    let Some(tid) = holder_in(words, pi) else { return Ok(None) };
    // A process shares a robust or inherited futex with others only in the namespace of all.
    let lives = std::path::Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
    Ok((lives && has_our_namespace(pid)).then_some(tid))
}

/// Returns the thread id that the words at a futex contain.
fn holder_in(words: &[u32], pi: bool) -> Option<u32> {
    let tid = words[0] & TID_MASK;
    let is_robust = words[0] & WAITERS != 0 && tid != MUSL_NORMAL;
    if pi || is_robust {
        return (tid != 0).then_some(tid);
    }
    let [CONTENDED, count, owner, users, kind] = *words else { return None };
    let recursive = kind & 0x3 == libc::PTHREAD_MUTEX_RECURSIVE as u32;
    let counts = if recursive { count > 0 } else { count == 0 };
    (counts && owner != 0 && owner <= TID_MASK && users > 0 && kind & !KINDS == 0).then_some(owner)
}

/// Reads words of the memory of another process.
fn read(pid: u32, address: u64, words: &mut [u32]) -> io::Result<()> {
    let length = size_of_val(words);
    let local = libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: length };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: length };
    // SAFETY: the local buffer is that of `words`, with its length; the kernel checks the address
    // in the other process.
    let n = unsafe { libc::process_vm_readv(pid as i32, &local, 1, &remote, 1, 0) };
    match usize::try_from(n) {
        Err(_) => Err(io::Error::last_os_error()),
        Ok(n) if n == length => Ok(()),
        Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Returns whether a process has the pid namespace of this one.
fn has_our_namespace(pid: u32) -> bool {
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let ours = namespace("self");
    ours.is_some() && namespace(&pid.to_string()) == ours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_with_a_holder_name_one() {
        let normal = |words: &[u32]| holder_in(words, false);
        assert_eq!(holder_in(&[WAITERS | 4711], true), Some(4711));
        assert_eq!(holder_in(&[0], true), None);
        assert_eq!(normal(&[WAITERS | 4711, 0, 0, 0, 0]), Some(4711));
        assert_eq!(normal(&[WAITERS | MUSL_NORMAL, 0, 0, 0, 0]), None);
        assert_eq!(normal(&[4711, 0, 0, 0, 0]), None);
        // glibc: __lock, __count, __owner, __nusers, __kind.
        assert_eq!(normal(&[2, 0, 4711, 1, 0]), Some(4711));
        assert_eq!(normal(&[2, 1, 4711, 1, 1]), Some(4711));
        for other in [
            [1, 0, 4711, 1, 0],
            [2, 5, 4711, 1, 0],
            [2, 0, 0, 1, 0],
            [2, 0, 4711, 0, 0],
            [2, 0, 4711, 1, 77],
            [2, 0, u32::MAX, 1, 0],
        ] {
            assert_eq!(normal(&other), None, "{other:?}");
        }
        assert_eq!(normal(&[2]), None);
    }

    #[test]
    fn the_holder_of_a_mutex_is_the_thread_that_locked_it() {
        let own = std::process::id();
        // SAFETY: gettid has no arguments.
        let tid = unsafe { libc::gettid() } as u32;
        let mutex = Box::into_raw(Box::new(libc::PTHREAD_MUTEX_INITIALIZER));
        let at = mutex as u64;
        assert_eq!(holder(own, at, false).unwrap(), None);
        // SAFETY: the mutex lives until the end of the test, which frees it after its last use.
        unsafe { libc::pthread_mutex_lock(mutex) };
        assert_eq!(holder(own, at, false).unwrap(), None, "no task waits");
        let waiter = std::thread::spawn(move || {
            let mutex = at as *mut libc::pthread_mutex_t;
            // SAFETY: the mutex lives until this thread was joined.
            unsafe { libc::pthread_mutex_lock(mutex) };
            // SAFETY: this thread has locked it.
            unsafe { libc::pthread_mutex_unlock(mutex) };
        });
        let since = std::time::Instant::now();
        let mut found = None;
        while found.is_none() && since.elapsed() < std::time::Duration::from_secs(60) {
            found = holder(own, at, false).unwrap();
        }
        // SAFETY: this thread has locked it.
        unsafe { libc::pthread_mutex_unlock(mutex) };
        waiter.join().unwrap();
        assert_eq!(found, Some(tid));
        assert_eq!(holder(own, at, false).unwrap(), None);
        // SAFETY: no thread uses the mutex, which `into_raw` gave up.
        drop(unsafe { Box::from_raw(mutex) });
        assert!(holder(own, 8, false).is_err());
    }
}
