// Ranks that are MPI processes: mpirun with the program mpi_ranks.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace {

using ::testing::HasSubstr;

struct Result {
  int status;
  double seconds;
  std::string output;  // stdout and stderr
};

class Mpi : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string(SPILLWAY_MPI_RANKS).empty()) GTEST_SKIP() << "this build has no MPI program";
  }
  static Result shell(const std::string& command) {
    const auto start = std::chrono::steady_clock::now();
    Result result{-1, 0, ""};
    FILE* pipe = popen(("exec 2>&1; " + command).c_str(), "r");
    for (char buffer[4096]; size_t n = fread(buffer, 1, sizeof(buffer), pipe);) {
      result.output.append(buffer, n);
    }
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result;
  }
  static Result mpirun(int ranks, const std::string& arguments) {
    return shell(
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        "OMPI_MCA_rmaps_base_oversubscribe=1 timeout -k 5 120 " SPILLWAY_MPIRUN " -np " +
        std::to_string(ranks) + " " SPILLWAY_MPI_RANKS " " + arguments);
  }
  // The time includes mpirun's own: some 4 s where the hostname is not in /etc/hosts.
  static void expect_end(const Result& result, const std::string& message) {
    EXPECT_NE(result.status, 0);
    EXPECT_NE(result.status, 124) << "timed out";
    EXPECT_LT(result.seconds, 10) << result.output;
    EXPECT_THAT(result.output, HasSubstr(message));
  }
};

TEST_F(Mpi, FourRanksExchange) {
  const Result result = mpirun(4, "exchange");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr(", 4 processes, 4 on this machine"));
}

TEST_F(Mpi, OneRankRunsAlone) {
  const Result result = mpirun(1, "exchange");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("done: one process, 1 on this machine"));
}

TEST_F(Mpi, ARankThatAbortsEndsAll) { expect_end(mpirun(4, "abort"), "rank 3: cannot go on\n"); }

TEST_F(Mpi, ARankThatAbortsWhileItsOtherThreadWaitsEndsAll) {
  expect_end(mpirun(4, "abort_beside_exchange"), "rank 3: cannot go on\n");
}

TEST_F(Mpi, AnExceptionEndsAll) { expect_end(mpirun(4, "throw"), "rank 3: a fault of its own\n"); }

TEST_F(Mpi, ARankThatIsKilledEndsAll) { expect_end(mpirun(4, "kill"), "signal 9"); }

// RankFailed, thrown by the plugin and caught by the program.
TEST_F(Mpi, ASilentRankIsNamed) {
  expect_end(mpirun(4, "silent 1.5"), ": RankFailed: rank 3: no answer to rank ");
}

TEST_F(Mpi, SizesThatDifferEndAll) {
  expect_end(mpirun(2, "too_short"), "sends 4 bytes where rank");
  expect_end(mpirun(2, "too_long"), "truncated");
}

// A copy of the program and the plugin in folders of their own.
TEST_F(Mpi, ThePluginIsFoundInAnInstallation) {
  const std::string copy =
      "d=$(mktemp -d); mkdir $d/bin $d/lib; cp " SPILLWAY_MPI_RANKS " $d/bin; ";
  const std::string clean = "; s=$?; rm -r $d; exit $s";
  const std::string ranks = "OMPI_COMM_WORLD_SIZE=2 $d/bin/mpi_ranks exchange";
  Result result = shell(copy + ranks + clean);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, HasSubstr("built without MPI: there is no libspillway_mpi.so in"));
  // As where libmpi is missing: it is there, but cannot be loaded.
  result = shell(copy + "echo no library >$d/lib/libspillway_mpi.so; " + ranks + clean);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, HasSubstr("cannot load"));
  EXPECT_THAT(result.output, HasSubstr("Is MPI installed"));
  // Found: MPI without mpirun is of one rank.
  result = shell(copy +
                 "cp $(dirname " SPILLWAY_MPI_RANKS
                 ")/libspillway_mpi.so $d/lib; PMI_SIZE=3 "
                 "$d/bin/mpi_ranks exchange" +
                 clean);
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, HasSubstr("sees 1"));
}

// As srun starts processes when Slurm and MPI have no protocol in common.
TEST_F(Mpi, ALauncherThatMpiDoesNotUnderstandIsRefused) {
  const Result result = shell("PMI_SIZE=4 PMI_RANK=0 " SPILLWAY_MPI_RANKS " exchange");
  EXPECT_EQ(result.status, 3) << result.output;
  EXPECT_THAT(result.output, HasSubstr("started 4 processes, but MPI (Open MPI"));
  EXPECT_THAT(result.output, HasSubstr("sees 1"));
}

using SlowMpi = Mpi;
TEST_F(SlowMpi, AMessageOfMoreThanAnIntOfBytes) {
  const Result result = mpirun(2, "huge");
  EXPECT_EQ(result.status, 0) << result.output;
}

}  // namespace
