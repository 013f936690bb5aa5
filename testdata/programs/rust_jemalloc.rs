// A Rust program whose global allocator is jemalloc, linked statically with the
// prefix _rjem_, as the crate jemalloc-sys builds it and as programs like fd
// have it. It indexes made-up documents by their words, in threads that
// hand strings to each other.
//
//   rust_jemalloc attach
//
// After a line on stdin it works and prints {"final":true,"before":…,"after":…};
// after a second one it drops half of the index and says so again; a third ends
// it. Each of before and after has
//
//   live_bytes, live_count   what its own counter in the allocator's wrapper has
//   regions, allocated       what jemalloc's statistics have: blocks, and the bytes of their classes
//
// and cached_count, cached_bytes are what `cached` alone keeps. jemalloc's
// statistics count blocks in threads' caches as live: run it with
// _RJEM_MALLOC_CONF=tcache:false.
use std::alloc::{GlobalAlloc, Layout};
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::io::BufRead;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::mpsc;
use std::{mem, ptr, thread};

static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static LIVE_COUNT: AtomicI64 = AtomicI64::new(0);

fn count(blocks: i64, bytes: i64) {
    LIVE_COUNT.fetch_add(blocks, Relaxed);
    LIVE_BYTES.fetch_add(bytes, Relaxed);
}

struct Jemalloc;

// What malloc aligns to needs no flag, as in the crate jemallocator.
fn flags(layout: Layout) -> i32 {
    if layout.align() <= 16 && layout.align() <= layout.size() {
        0
    } else {
        layout.align().trailing_zeros() as i32
    }
}

unsafe impl GlobalAlloc for Jemalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        match flags(layout) {
            0 => ffi::malloc(layout.size()) as *mut u8,
            flags => ffi::mallocx(layout.size(), flags) as *mut u8,
        }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        match flags(layout) {
            0 => ffi::calloc(1, layout.size()) as *mut u8,
            flags => ffi::mallocx(layout.size(), flags | ffi::MALLOCX_ZERO) as *mut u8,
        }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-1, -(layout.size() as i64));
        ffi::sdallocx(block as *mut _, layout.size(), flags(layout));
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(0, size as i64 - layout.size() as i64);
        match flags(layout) {
            0 => ffi::realloc(block as *mut _, size) as *mut u8,
            flags => ffi::rallocx(block as *mut _, size, flags) as *mut u8,
        }
    }
}

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

// A figure of jemalloc's, of at most 64 bits.
fn ask(name: &str) -> i64 {
    let name = CString::new(name).unwrap();
    let (mut value, mut size) = (0u64, mem::size_of::<u64>());
    unsafe {
        if ffi::mallctl(name.as_ptr(), &mut value as *mut u64 as *mut _, &mut size, ptr::null_mut(), 0) != 0 {
            size = mem::size_of::<u32>();
            let ok = ffi::mallctl(name.as_ptr(), &mut value as *mut u64 as *mut _, &mut size, ptr::null_mut(), 0);
            assert_eq!(ok, 0, "mallctl {:?}", name);
        }
    }
    value as i64
}

// The statistics of all arenas (4096 is MALLCTL_ARENAS_ALL) as they are now.
fn statistics() -> (i64, i64) {
    let mut now = 1u64;
    unsafe {
        let size = mem::size_of::<u64>();
        assert_eq!(ffi::mallctl("epoch\0".as_ptr() as *const _, ptr::null_mut(), ptr::null_mut(), &mut now as *mut u64 as *mut _, size), 0);
    }
    let mut regions = 0;
    for i in 0..ask("arenas.nbins") {
        regions += ask(&format!("stats.arenas.4096.bins.{}.curregs", i));
    }
    for i in 0..ask("arenas.nlextents") {
        regions += ask(&format!("stats.arenas.4096.lextents.{}.curlextents", i));
    }
    (regions, ask("stats.allocated"))
}

struct State {
    bytes: i64,
    count: i64,
    regions: i64,
    allocated: i64,
}

fn state() -> State {
    statistics(); // what asking needs is there from now on
    let (regions, allocated) = statistics();
    State { bytes: LIVE_BYTES.load(Relaxed), count: LIVE_COUNT.load(Relaxed), regions, allocated }
}

fn text(s: &State) -> String {
    format!("{{\"live_bytes\":{},\"live_count\":{},\"regions\":{},\"allocated\":{}}}", s.bytes, s.count, s.regions, s.allocated)
}

type Index = BTreeMap<String, Vec<u32>>;

// Words of documents come from a thread that makes them; who gets them keeps some.
#[inline(never)]
fn indexed() -> Index {
    let (sender, words) = mpsc::sync_channel::<(u32, String)>(64);
    let maker = thread::spawn(move || {
        let mut seed = 1u64;
        for document in 0..2000u32 {
            for _ in 0..20 {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                sender.send((document, format!("word{}", (seed >> 33) % 5000))).unwrap();
            }
        }
    });
    let mut index = Index::new();
    for (document, word) in words {
        index.entry(word).or_insert_with(Vec::new).push(document);
    }
    maker.join().unwrap();
    index
}

// 1,000 boxes of 300 bytes.
#[inline(never)]
fn cached(cache: &mut HashMap<u64, Box<[u8; 300]>>) {
    for i in 0..1000 {
        cache.insert(i, Box::new([i as u8; 300]));
    }
}

fn main() {
    let (stdin, mut line) = (std::io::stdin(), String::with_capacity(64));
    let mut cache = HashMap::with_capacity(2000);
    println!("ready {}", std::process::id());
    let mut wait = || {
        line.clear();
        stdin.lock().read_line(&mut line).unwrap();
    };
    wait();
    let before = state();
    let mut index = indexed();
    cached(&mut cache);
    let say = |before: &State| {
        let after = state();
        println!("{{\"final\":true,\"before\":{},\"after\":{},\"cached_count\":1000,\"cached_bytes\":300000}}", text(before), text(&after));
    };
    say(&before);
    wait();
    let mut keep = false;
    index.retain(|_, _| {
        keep = !keep;
        keep
    });
    say(&before);
    wait();
    std::process::exit(0);
}
