//! The digests Flash Player 9 and later put into C1, C2, S1 and S2.
