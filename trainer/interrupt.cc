#include "trainer/interrupt.h"

#include <csignal>

namespace spillway {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;  // the one global: a signal handler has no other way

}  // namespace

void catch_interrupts() {
  std::signal(SIGINT, [](int) {
    g_interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  });
}

bool interrupted() { return g_interrupted != 0; }

}  // namespace spillway
