//! The ways of Rust's standard library to hold and to lose a block, in the
//! form of leak_corpus.cc: each case has a block of a size of its own.
//!
//!     case NAME SIZE reachable|possible|indirect|definite
//!     block ADDRESS SIZE        (all live blocks)
//!     ready
//!
//! Then it waits for the end of stdin. The allocator notes all live blocks in a
//! table that holds their addresses inverted, so that it points to nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, LinkedList, VecDeque};
use std::io::{Read, Write};
use std::mem::{forget, size_of, ManuallyDrop};
use std::rc::Rc;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const TABLE: usize = 1 << 14;
#[allow(clippy::declare_interior_mutable_const)]
const ZERO: AtomicUsize = AtomicUsize::new(0);
static KEYS: [AtomicUsize; TABLE] = [ZERO; TABLE]; // !address; 0: free, 1: was used
static SIZES: [AtomicUsize; TABLE] = [ZERO; TABLE];

struct Noting;

fn note(block: *mut u8, size: usize) {
    if block.is_null() {
        return;
    }
    let mut i = (block as usize >> 4) % TABLE;
    loop {
        let free = KEYS[i].load(SeqCst);
        if free <= 1 && KEYS[i].compare_exchange(free, !(block as usize), SeqCst, SeqCst).is_ok() {
            return SIZES[i].store(size, SeqCst);
        }
        i = (i + 1) % TABLE;
    }
}

fn drop_note(block: *mut u8) {
    let mut i = (block as usize >> 4) % TABLE;
    while KEYS[i].load(SeqCst) != 0 {
        if KEYS[i].compare_exchange(!(block as usize), 1, SeqCst, SeqCst).is_ok() {
            return;
        }
        i = (i + 1) % TABLE;
    }
}

unsafe impl GlobalAlloc for Noting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let b = System.alloc(layout);
        note(b, layout.size());
        b
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let b = System.alloc_zeroed(layout);
        note(b, layout.size());
        b
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        drop_note(block);
        System.dealloc(block, layout)
    }
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let b = System.realloc(old, layout, size);
        if !b.is_null() {
            drop_note(old);
            note(b, size);
        }
        b
    }
}

#[global_allocator]
static ALLOCATOR: Noting = Noting;

fn case(name: &str, size: usize, verdict: &str) {
    println!("case {} {} {}", name, size, verdict);
}

/// Hides a value's origin from the compiler.
#[inline(never)]
fn opaque<T>(v: T) -> T {
    let out = unsafe { std::ptr::read_volatile(&v) };
    forget(v);
    out
}

type Block<const N: usize> = [u8; N];

fn block<const N: usize>() -> Box<Block<N>> {
    Box::new(opaque([7; N]))
}

// What holds blocks: words, so that nothing is dropped at the end.
static HELD: [AtomicUsize; 40] = [ZERO; 40];
static NEXT: AtomicUsize = AtomicUsize::new(0);

fn hold(word: usize) {
    HELD[NEXT.fetch_add(1, SeqCst)].store(word, SeqCst);
}

fn address<T: ?Sized>(p: *const T) -> usize {
    p as *const u8 as usize
}

static BOXED: AtomicPtr<Block<1001>> = AtomicPtr::new(std::ptr::null_mut());
static STRINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static LOCAL: RefCell<Option<Box<Block<1009>>>> = const { RefCell::new(None) };
}

trait Shape {
    fn area(&self) -> usize;
}
impl<const N: usize> Shape for Block<N> {
    fn area(&self) -> usize {
        self.len()
    }
}

#[inline(never)]
fn hold_directly() {
    BOXED.store(Box::into_raw(block()), SeqCst);
    case("box_in_a_static", 1001, "reachable");
    let shape: Box<dyn Shape> = block::<1033>();
    hold(address(Box::into_raw(shape)));
    case("box_of_a_trait", 1033, "reachable");
    hold(address(Box::leak(block::<1037>())));
    case("leaked_box_that_is_kept", 1037, "reachable");
    LOCAL.with(|l| *l.borrow_mut() = Some(block()));
    case("thread_local", 1009, "reachable");
    STRINGS.lock().unwrap().push("x".repeat(1049));
    case("string_in_a_mutex", 1049, "reachable");
    hold(address(Box::into_raw(block::<1051>())) | 3);
    case("tagged_in_low_bits", 1051, "reachable");
    hold(address(Box::into_raw(block::<1061>())) | 0xfff8 << 48);
    case("tagged_in_high_bits", 1061, "possible");
    hold(address(&vec![1u8; 1063].leak()[100..]));
    case("slice_into_a_vec", 1063, "possible");
    hold(!address(Box::into_raw(block::<1069>())));
    case("complemented", 1069, "definite");
}

/// Rc and Arc: two counts, then the value, to which into_raw points.
#[inline(never)]
fn hold_counted() {
    hold(address(Rc::into_raw(Rc::new([1u8; 1087]))));
    case("rc_into_raw", 16 + 1087 + 1, "reachable");
    hold(address(Arc::into_raw(Arc::new([1u8; 1097]))));
    case("arc_into_raw", 16 + 1097 + 7, "reachable");
    let rc = Box::new(Rc::new([1u8; 1213]));
    hold(address(Box::into_raw(rc)));
    case("rc_in_a_box", 16 + 1213 + 3, "reachable");
}

#[inline(never)]
fn hold_collections() {
    let mut map: HashMap<u32, Box<Block<1109>>> = HashMap::new();
    for k in 0..100 {
        map.insert(k, block());
    }
    for _ in 0..100 {
        case("value_of_a_hash_map", 1109, "reachable");
    }
    hold(address(Box::into_raw(Box::new(map))));
    let mut small: HashMap<u32, Box<Block<1117>>> = HashMap::new();
    small.insert(1, block());
    case("value_of_a_small_hash_map", 1117, "reachable");
    hold(address(Box::into_raw(Box::new(small))));
    let mut tree: BTreeMap<u32, Box<Block<1123>>> = BTreeMap::new();
    for k in 0..100 {
        tree.insert(k, block());
        case("value_of_a_tree_map", 1123, "reachable");
    }
    hold(address(Box::into_raw(Box::new(tree))));
    let mut list: LinkedList<Box<Block<1129>>> = LinkedList::new();
    for _ in 0..3 {
        list.push_back(block());
        case("value_of_a_linked_list", 1129, "reachable");
    }
    hold(address(Box::into_raw(Box::new(list))));
    let mut queue: VecDeque<Box<Block<1151>>> = VecDeque::new();
    for _ in 0..3 {
        queue.push_back(block());
        case("value_of_a_queue", 1151, "reachable");
    }
    hold(address(Box::into_raw(Box::new(queue))));
    let mut rest = vec![block::<1153>(), block(), block()].into_iter();
    forget(rest.next()); // what the iterator has given away still stands in its block
    case("rest_of_an_iterator", 1153, "reachable");
    case("rest_of_an_iterator", 1153, "reachable");
    case("given_away_by_an_iterator", 1153, "reachable");
    hold(address(Box::into_raw(Box::new(rest))));
}

struct Node<const N: usize> {
    other: RefCell<Option<Rc<Node<N>>>>,
    _room: Block<N>,
}

#[inline(never)]
fn lose() {
    forget(block::<2003>());
    case("forgotten_box", 2003, "definite");
    Box::leak(block::<2011>());
    case("leaked_box", 2011, "definite");
    let _ = Box::into_raw(block::<2017>());
    case("box_into_raw", 2017, "definite");
    let _kept = ManuallyDrop::new(block::<2027>());
    case("never_dropped", 2027, "definite");
    forget(vec![1u8; 2029]);
    case("forgotten_vec", 2029, "definite");
    forget("x".repeat(2039));
    case("forgotten_string", 2039, "definite");
    let mut boxes = Vec::with_capacity(271);
    boxes.push(block::<2053>());
    boxes.push(block());
    forget(boxes);
    case("forgotten_vec_of_boxes", 271 * size_of::<usize>(), "definite");
    case("box_in_a_forgotten_vec", 2053, "indirect");
    case("box_in_a_forgotten_vec", 2053, "indirect");
    forget(Rc::new([1u8; 2063]));
    case("forgotten_rc", 16 + 2063 + 1, "definite");
    forget(Arc::new((Mutex::new(block::<2069>()), [1u8; 2111])));
    case("forgotten_arc", 16 + size_of::<(Mutex<Box<Block<2069>>>, Block<2111>)>(), "definite");
    case("box_in_a_forgotten_arc", 2069, "indirect");
    let mut map: HashMap<u32, Box<Block<2081>>> = HashMap::with_capacity(600);
    map.insert(1, block());
    forget(map);
    case("forgotten_hash_map", 1024 * (16 + 1) + 16, "definite");
    case("value_of_a_forgotten_hash_map", 2081, "indirect");
}

#[inline(never)]
fn lose_cycles() {
    let a = Rc::new(Node::<2085> { other: RefCell::new(None), _room: [1; 2085] });
    let b = Rc::new(Node::<2085> { other: RefCell::new(Some(a.clone())), _room: [1; 2085] });
    *a.other.borrow_mut() = Some(b);
    case("rc_cycle", 16 + size_of::<Node<2085>>(), "one definite, one indirect");
    let own = Rc::new(Node::<2101> { other: RefCell::new(None), _room: [1; 2101] });
    *own.other.borrow_mut() = Some(own.clone());
    case("rc_of_itself", 16 + size_of::<Node<2101>>(), "definite");
}

/// Overwrites what calls left on the stack.
#[inline(never)]
fn scrub() {
    opaque([0u8; 16384]);
}

static UP: AtomicU32 = AtomicU32::new(0);

fn in_a_thread() {
    std::thread::spawn(|| {
        let on_stack = opaque(block::<1163>());
        case("thread_stack", 1163, "reachable");
        LOCAL.with(|l| *l.borrow_mut() = Some(block()));
        case("thread_local_of_a_thread", 1009, "reachable");
        scrub();
        UP.store(1, SeqCst);
        loop {
            std::thread::park();
            opaque(on_stack.area());
        }
    });
    while UP.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
}

/// Has a frame of its own, for the last address stays in it: of any block, as
/// the order is that of the addresses' lower bits.
#[inline(never)]
fn tell_blocks() {
    let mut out = std::io::stdout().lock();
    for i in 0..TABLE {
        let key = KEYS[i].load(SeqCst);
        if key > 1 {
            writeln!(out, "block {:#x} {}", !key, SIZES[i].load(SeqCst)).unwrap();
        }
    }
    writeln!(out, "ready").unwrap();
    out.flush().unwrap();
}

fn main() {
    // With an argument it does not wait at its end; with "attach" it does at
    // first; with "exit" it runs exit handlers.
    let argument = std::env::args().nth(1);
    if argument.as_deref() == Some("attach") {
        let _ = std::io::stdin().read(&mut [0]);
    }
    let waits = argument.is_none();
    let handlers = argument.as_deref() == Some("exit");
    drop(argument);
    let local = opaque(block::<1171>());
    case("stack", 1171, "reachable");
    hold_directly();
    hold_counted();
    hold_collections();
    lose();
    lose_cycles();
    in_a_thread();
    scrub();
    tell_blocks();
    scrub();
    if waits {
        let _ = std::io::stdin().read(&mut [0]);
    }
    opaque(local.area() + BOXED.load(SeqCst) as usize);
    for word in &HELD {
        opaque(word.load(SeqCst)); // what is never read need not be there
    }
    unsafe {
        if handlers {
            exit(0);
        }
        _exit(0);
    }
}

extern "C" {
    fn _exit(code: i32) -> !;
    fn exit(code: i32) -> !;
}
