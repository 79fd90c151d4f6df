//! Wake-ups: who waits for work or for the end of a run, and who tells them.
