// Runs a function once a rank, each on a thread of its own.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "parallel/world.h"

namespace spillway {

// What each rank's `body` threw; "" where it returned.
inline std::vector<std::string> on_threads(int ranks, const std::function<void(World&)>& body) {
  const auto worlds = thread_worlds(ranks);
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(*worlds[rank]);
      } catch (const std::exception& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace spillway
