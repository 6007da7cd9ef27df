// The program that becomes pid 1 of every box: its bytes, put here by the build.
#pragma once

extern const unsigned char pid1_start[], pid1_end[];
