// operator new of this test program counts, on all threads.
#pragma once

namespace spillway {

void start_counting_allocations();
[[nodiscard]] int stop_counting_allocations();  // calls of operator new since the start

}  // namespace spillway
