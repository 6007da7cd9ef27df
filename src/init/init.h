// pid 1 of a box.
#pragma once

// Never returns 0: it ends with its control socket, or reports why the box is broken.
int init_main(void);
