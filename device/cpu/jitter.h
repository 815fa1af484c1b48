// A random delay before an instruction: what must not change a bit of any result.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

namespace spillway::cpu {

class Jitter {
 public:
  // Seed 0: no delays.
  void seed(uint64_t seed, int stream) {
    state_ = seed == 0 ? 0 : seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(stream) + 1;
  }

  // For one instruction in four 0 to 200 us, on the calling thread. One thread only.
  void delay() {
    if (state_ == 0) return;
    state_ += 0x9e3779b97f4a7c15u;  // splitmix64
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    if (z % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(z / 4 % 201));
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace spillway::cpu
