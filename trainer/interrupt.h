// Ctrl-C asks a run for an end.
#pragma once

namespace spillway {

// From here on the process's first SIGINT is only noted; a second one kills.
void catch_interrupts();
[[nodiscard]] bool interrupted();

}  // namespace spillway
