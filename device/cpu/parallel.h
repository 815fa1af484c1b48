// Loops over tasks, rows and blocks of elements. How work is cut depends on shapes only, never on the
// number of threads, and tasks share nothing they write: results are the same bits for any number.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace spillway::cpu {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Calls f(task, thread) for every task. The first exception is thrown again after the last task.
// Tasks may call oneDNN, which sees one thread: inside a parallel region by itself, and outside
// because the calling thread's default is set to one (regions here always state theirs).
template <class F>
void parallel_for(int64_t tasks, int threads, const F& f) {
  omp_set_num_threads(1);
  if (threads == 1 || tasks <= 1) {
    for (int64_t task = 0; task < tasks; ++task) f(task, 0);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
  for (int64_t task = 0; task < tasks; ++task) {
    try {
      f(task, omp_get_thread_num());
    } catch (...) {
#pragma omp critical(spillway_cpu_error)
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Elements a task works on: some 10 us, several times what it costs to hand a task to a thread.
inline constexpr int64_t kTaskElements = 16384;
// Elements of one run: a few f32 buffers of this size stay in the first-level cache.
inline constexpr int64_t kBlock = 1024;

// Calls f(at, count) for runs of at most kBlock elements that together cover [0, elements).
template <class F>
void for_each_block(int64_t elements, int threads, const F& f) {
  parallel_for(ceil_div(elements, kTaskElements), threads, [&](int64_t task, int) {
    const int64_t end = std::min(elements, (task + 1) * kTaskElements);
    for (int64_t at = task * kTaskElements; at < end; at += kBlock) {
      f(at, std::min(kBlock, end - at));
    }
  });
}

// Calls f(row, thread) for every row; `width`: elements of one.
template <class F>
void for_each_row(int64_t rows, int64_t width, int threads, const F& f) {
  const int64_t step = std::max<int64_t>(1, kTaskElements / width);
  parallel_for(ceil_div(rows, step), threads, [&](int64_t task, int thread) {
    const int64_t end = std::min(rows, (task + 1) * step);
    for (int64_t row = task * step; row < end; ++row) f(row, thread);
  });
}

}  // namespace spillway::cpu
