#pragma once

// `cove serve`: the supervisor. Returns the exit status.
int serve_main(int argc, char **argv);
