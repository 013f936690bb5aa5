// A Rust program with an allocator of its own, which is not malloc: blocks come
// from one mapping and are never given back. It prints the answer of target.h
// for the functions that allocate.
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Bump;

static NEXT: AtomicUsize = AtomicUsize::new(0);

extern "C" {
    fn mmap(at: *mut u8, size: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
}

unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if NEXT.load(Ordering::Relaxed) == 0 {
            let heap = mmap(std::ptr::null_mut(), 64 << 20, 3, 0x22, -1, 0) as usize;
            let _ = NEXT.compare_exchange(0, heap, Ordering::Relaxed, Ordering::Relaxed);
        }
        let at = NEXT.fetch_add(layout.size() + 64, Ordering::Relaxed);
        ((at + layout.align() - 1) & !(layout.align() - 1)) as *mut u8
    }
    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Bump = Bump;

#[inline(never)]
fn boxes() -> Vec<Box<[u8; 100]>> {
    let mut kept = Vec::with_capacity(16);
    for i in 0..40u8 {
        let block = std::hint::black_box(Box::new([i; 100]));
        if i % 4 == 0 {
            kept.push(block);
        }
    }
    kept
}

#[inline(never)]
fn grows() -> Vec<u64> {
    let mut v = Vec::with_capacity(1);
    for i in 0..1000u64 {
        v.push(std::hint::black_box(i));
    }
    v
}

fn main() {
    let mut line = String::new();
    if std::env::args().nth(1).as_deref() == Some("attach") {
        println!("ready {}", std::process::id());
        std::io::stdin().read_line(&mut line).unwrap();
    }
    let kept = boxes();
    let grown = grows();
    // 40 boxes, 10 kept, and the vector of 16 pointers; one vector of 1, grown to 1,024 elements by doubling.
    println!(
        "{{\"program\":\"own_allocator\",\"pid\":{},\"final\":true,\"sites\":[\
         {{\"function\":\"boxes\",\"alloc\":41,\"realloc\":0,\"realloc_freed\":0,\"free\":30,\"live_count\":11,\"live_bytes\":{}}},\
         {{\"function\":\"grows\",\"alloc\":1,\"realloc\":{},\"realloc_freed\":0,\"free\":0,\"live_count\":1,\"live_bytes\":{}}}]}}",
        std::process::id(), kept.len() * 100 + 16 * 8, grown.capacity().trailing_zeros() - 1, grown.capacity() * 8
    );
    std::hint::black_box((&kept, &grown));
    if line.len() > 0 {
        std::io::stdin().read_line(&mut line).unwrap();
    }
    std::process::exit(0);
}
