// What mpi_test.cc starts under mpirun: joins the world and does what its first argument says.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "parallel/group.h"
#include "parallel/world.h"
#include "program/error.h"
#include "tests/parallel/random_exchange.h"

namespace spillway {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void require(bool truth, const char* what) {
  if (!truth) throw std::runtime_error(std::string("not so: ") + what);
}

void exchanges(World& world) {
  for (unsigned seed = 0; seed < 200; ++seed) random_exchange(world, seed, 100'000);
  for (unsigned seed = 200; seed < 204; ++seed) random_exchange(world, seed, 6'000'000);
  const auto texts = all_texts(world, "I am " + std::to_string(world.rank()));
  for (int i = 0; i < world.size(); ++i)
    require(texts[i] == "I am " + std::to_string(i), "all_texts");
  int64_t values[] = {1, world.rank()};
  sum_over_ranks(world, values);
  require(values[0] == world.size() && values[1] == world.size() * (world.size() - 1) / 2, "sums");
  require(world.local_rank() == world.rank() % world.local_size(), "node by node");

  const Communicator all{&world, Mesh({}, world.size(), world.rank(), 0)};
  Group group(all, axis::kAll);
  for (int64_t elements : {0, 1, 7, 4096, 100'001}) {
    std::vector<int32_t> whole(elements, -1);
    const Part mine = part_of(elements, world.size(), world.rank());
    for (int64_t i = mine.begin; i < mine.end; ++i) whole[i] = static_cast<int32_t>(i);
    auto* bytes = reinterpret_cast<std::byte*>(whole.data());
    group.all_gather(bytes + mine.begin * 4, bytes, elements, 4);
    for (int64_t i = 0; i < elements; ++i) require(whole[i] == i, "all_gather");
  }
}

// More than MPI can count in one message.
void huge(World& world) {
  const int64_t bytes = (int64_t{1} << 30) + 12345;
  std::vector<uint8_t> data(bytes, static_cast<uint8_t>(world.rank() + 1));
  data.back() = 77;
  if (world.rank() == 0) {
    const Send send{1, data.data(), bytes};
    world.exchange({&send, 1}, {});
  } else {
    const Receive receive{0, data.data(), bytes};
    world.exchange({}, {&receive, 1});
    require(data[0] == 1 && data[bytes - 2] == 1 && data.back() == 77, "huge message");
  }
}

// Exchanges without end, until `stop(round)` does something.
template <typename Stop>
void forever(World& world, Stop stop) {
  for (unsigned round = 0;; ++round) {
    stop(round);
    random_exchange(world, round, 10'000);
  }
}

void ring(World& world, std::vector<uint8_t>& out, std::vector<uint8_t>& in) {
  const int size = world.size(), rank = world.rank();
  const Send send{(rank + 1) % size, out.data(), static_cast<int64_t>(out.size())};
  const Receive receive{(rank + size - 1) % size, in.data(), static_cast<int64_t>(in.size())};
  world.exchange({&send, 1}, {&receive, 1});
}

// Not a test: the time of an exchange in which everyone sends to the next.
void bench(World& world) {
  for (int64_t bytes : {8LL, 4096LL, 65536LL, 1LL << 20, 16LL << 20, 64LL << 20}) {
    std::vector<uint8_t> out(bytes, 1), in(bytes, 0);
    const int rounds = bytes < 100'000 ? 2000 : 20;
    for (int i = 0; i < 5; ++i) ring(world, out, in);
    const auto start = Clock::now();
    for (int i = 0; i < rounds; ++i) ring(world, out, in);
    const double seconds = seconds_since(start) / rounds;
    if (world.rank() != 0) continue;
    std::printf("%10lld bytes: %10.1f us, %8.3f GB/s each way\n", static_cast<long long>(bytes),
                seconds * 1e6, static_cast<double>(bytes) / seconds * 1e-9);
    std::fflush(stdout);
  }
}

// Two threads: one waits for a message that does not come while the other gives up.
void abort_beside_exchange(World& world, bool chosen) {
  std::thread waiting([&] {
    int8_t byte = 0;
    const Receive receive{(world.rank() + 1) % world.size(), &byte, 1};
    world.exchange({}, {&receive, 1});
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  if (chosen) world.abort("cannot go on");
  waiting.join();
}

void mismatch(World& world, int64_t sent, int64_t expected) {
  int64_t data = 0;
  const Send send{(world.rank() + 1) % world.size(), &data, sent};
  const Receive receive{(world.rank() + world.size() - 1) % world.size(), &data, expected};
  world.exchange({&send, 1}, {&receive, 1});
}

void run(const std::string& what, World& world) {
  const bool chosen = world.rank() == world.size() - 1;
  // In the middle of exchanges, something happens to the chosen rank.
  const auto amid = [&](auto happens) {
    forever(world, [&](unsigned round) {
      if (chosen && round == 20) happens();
    });
  };
  if (what == "exchange") exchanges(world);
  if (what == "huge") huge(world);
  if (what == "bench") bench(world);
  if (what == "too_short") mismatch(world, 4, 8);
  if (what == "too_long") mismatch(world, 8, 4);
  if (what == "abort_beside_exchange") abort_beside_exchange(world, chosen);
  if (what == "abort") amid([&] { world.abort("cannot go on"); });
  if (what == "kill") amid([] { kill(getpid(), SIGKILL); });
  if (what == "throw") amid([] { throw std::runtime_error("a fault of its own"); });
  if (what == "silent") amid([] { std::this_thread::sleep_for(std::chrono::seconds(30)); });
}

int main_of_rank(const std::string& what, double timeout_s) {
  std::unique_ptr<World> world;
  try {
    world = join_world(timeout_s);
  } catch (const ConfigError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
  try {
    run(what, *world);
  } catch (const RankFailed& error) {  // thrown by the plugin
    world->abort(std::string("RankFailed: ") + error.what());
  } catch (const std::exception& error) {
    world->abort(error.what());
  }
  if (world->rank() == 0) {
    std::printf("done: %s, %d on this machine\n", world->engine().c_str(), world->local_size());
  }
  return 0;
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
  return spillway::main_of_rank(argc > 1 ? argv[1] : "exchange",
                                argc > 2 ? std::atof(argv[2]) : 60);
}
