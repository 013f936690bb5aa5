// A program with much inlined code. It prints the address of one function of
// its own and waits for its input to end.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace shapes {

struct Base {
  virtual ~Base() = default;
  virtual double area() const = 0;
};

template <typename T> static inline T square(T v) { return v * v; }

template <typename T> class Circle : public Base {
public:
  explicit Circle(T r) : r_(r) {}
  double area() const override { return 3.14159 * square(r_); }

private:
  T r_;
};

class Box : public Base {
public:
  Box(double a, double b);
  double area() const override { return a_ * b_; }

private:
  double a_, b_;
};

Box::Box(double a, double b) : a_(a), b_(b) {
  if (square(a) + square(b) < 0)
    throw std::string("unreachable");
}

namespace {
struct Counter {
  int n = 0;
  inline void bump(int by) { n += square(by) % 7; }
};
} // namespace

__attribute__((noinline)) int count(const std::vector<int> &values) {
  Counter c;
  for (int v : values)
    c.bump(v);
  return c.n;
}

} // namespace shapes

static inline std::string repeat(const std::string &s, int n) {
  std::string r;
  for (int i = 0; i < n; i++)
    r += s;
  return r;
}

__attribute__((noinline)) std::map<std::string, int> histogram(int n) {
  std::map<std::string, int> h;
  for (int i = 0; i < n; i++)
    h[repeat("k", i % 5)] += i;
  return h;
}

__attribute__((noinline)) void sorted(std::vector<int> &v) {
  std::sort(v.begin(), v.end(), [](int a, int b) {
    struct Local {
      static int key(int x) { return shapes::square(x) % 101; }
    };
    return Local::key(a) < Local::key(b);
  });
}

extern "C" int plain(int x) { return shapes::square(x) + 1; }

int main(int argc, char **) {
  std::vector<int> v(100 + argc);
  std::iota(v.begin(), v.end(), 0);
  sorted(v);
  std::vector<std::unique_ptr<shapes::Base>> all;
  all.push_back(std::make_unique<shapes::Circle<double>>(argc));
  all.push_back(std::make_unique<shapes::Circle<int>>(argc));
  all.push_back(std::make_unique<shapes::Box>(argc, 2));
  double sum = 0;
  for (auto &s : all)
    sum += s->area();
  for (auto &[name, n] : histogram(argc * 10))
    sum += n + name.size();
  std::printf("%p %d %g\n", reinterpret_cast<void *>(&plain), shapes::count(v), sum);
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
