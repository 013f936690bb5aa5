// Stacks of Rust code: closures, generics, trait objects, panics that are
// caught, drops while unwinding, threads, recursion. It speaks as the programs
// that include stacks.h; its blocks come from malloc, its own stacks from the
// unwinder of libgcc that the standard library is linked to.
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::os::raw::{c_int, c_void};
use std::panic;
use std::sync::Mutex;

#[allow(improper_ctypes)]
extern "C" {
    fn malloc(n: usize) -> *mut c_void;
    fn _Unwind_Backtrace(f: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

struct Record {
    name: &'static str,
    size: usize,
    stack: Vec<usize>,
}

static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());

extern "C" fn add_frame(context: *mut c_void, data: *mut c_void) -> c_int {
    let stack = unsafe { &mut *(data as *mut Vec<usize>) };
    let address = unsafe { _Unwind_GetIP(context) };
    if address != 0 {
        stack.push(address); // the bottom has a caller at 0
    }
    0
}

#[inline(never)]
fn allocate(name: &'static str, result: usize) -> usize {
    let mut stack = Vec::with_capacity(100);
    let size = 1000 + RECORDS.lock().unwrap().len();
    let data = &mut stack as *mut Vec<usize> as *mut c_void;
    // Next to each other: the addresses of the two calls must not lie far apart.
    let block = unsafe {
        _Unwind_Backtrace(add_frame, data);
        malloc(size)
    };
    RECORDS.lock().unwrap().push(Record { name, size, stack });
    result + (block as usize & 1)
}

#[inline(never)]
fn recurse(depth: usize) -> usize {
    let frame = vec![depth; 3];
    if depth == 0 {
        return allocate("recursion", frame.len());
    }
    recurse(depth - 1) + frame[1]
}

trait Visit {
    fn visit(&self, n: usize) -> usize;
}
struct One(usize);
struct Other(String);
impl Visit for One {
    #[inline(never)]
    fn visit(&self, n: usize) -> usize {
        allocate("trait", self.0 + n)
    }
}
impl Visit for Other {
    #[inline(never)]
    fn visit(&self, n: usize) -> usize {
        allocate("trait", self.0.len() + n)
    }
}

#[inline(never)]
fn apply<F: Fn(usize) -> usize>(f: F, n: usize) -> usize {
    f(n) + 1
}

struct Guard(usize);
impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        allocate("drop", self.0);
    }
}

#[inline(never)]
fn panics(n: usize) -> usize {
    let guard = Guard(n);
    if n == 0 {
        panic!("bottom");
    }
    panics(n - 1) + guard.0
}

fn cases() {
    recurse(20);
    let all: Vec<Box<dyn Visit>> = vec![Box::new(One(1)), Box::new(Other("ab".to_string()))];
    all.iter().map(|v| v.visit(3)).sum::<usize>();
    apply(|n| allocate("closure", n), 2);
    apply(|n| apply(|m| allocate("closure", m + n), n), 3);
    let mut v = vec![5, 3, 4, 1, 2];
    v.sort_by_key(|n| allocate("sort", *n));
    v.sort_by(|a, b| allocate("sort", *a).cmp(b));
    let mut tree = BTreeMap::new();
    for n in 0..40 {
        *tree.entry(n % 7).or_insert_with(|| allocate("entry", n)) += 1;
    }
    panic::set_hook(Box::new(|_| ()));
    assert!(panic::catch_unwind(|| panics(4)).is_err());
    std::thread::spawn(|| recurse(5)).join().unwrap();
}

fn main() {
    let input = std::io::stdin();
    let mut line = String::new();
    println!("ready {}", std::process::id());
    std::io::stdout().flush().unwrap();
    input.lock().read_line(&mut line).unwrap();
    cases();
    let mut text = String::new();
    for r in RECORDS.lock().unwrap().iter() {
        text += &format!("{} {}", r.name, r.size);
        for address in &r.stack {
            text += &format!(" {:x}", address);
        }
        text += "\n";
    }
    println!("{}end", text);
    std::io::stdout().flush().unwrap();
    input.lock().read_line(&mut line).unwrap();
}
